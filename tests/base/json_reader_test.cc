// Tests of JSON input: accepted text, and the position and message of errors.
#include "base/json_reader.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "base/mapped_file.h"

namespace veery {
namespace {

using namespace std::string_literals;

std::string message_of(const std::string& text) {
  std::string read, skipped;
  try {
    parse_json(text, "x.json");
  } catch (const Error& error) {
    read = error.what();
  }
  try {
    const std::string padded = text + std::string(MappedFile::kPadding, '\0');
    const auto in_place = JsonText::padded_text(std::string_view(padded).substr(0, text.size()));
    JsonReader reader(in_place, "x.json");
    reader.skip();
    reader.finish();
  } catch (const Error& error) {
    skipped = error.what();
  }
  EXPECT_EQ(read, skipped) << "skip() checks the syntax as reading does";
  return read;
}

TEST(JsonReader, ReadsValuesOneByOne) {
  JsonReader reader(R"( {"a": [1, -2.5, "x\u00e9", true, null], "b": {}, "c": [[], 7]} )", "x");
  std::string_view key;
  reader.begin_object();
  ASSERT_TRUE(reader.next_key(key));
  EXPECT_EQ(key, "a");
  reader.begin_array();
  ASSERT_TRUE(reader.next_item());
  EXPECT_EQ(reader.integer(), 1);
  ASSERT_TRUE(reader.next_item());
  EXPECT_EQ(reader.number(), -2.5);
  ASSERT_TRUE(reader.next_item());
  EXPECT_EQ(reader.string(), "x\u00e9");
  ASSERT_TRUE(reader.next_item());
  EXPECT_TRUE(reader.boolean());
  ASSERT_TRUE(reader.next_item());
  EXPECT_EQ(reader.peek(), JsonReader::Kind::kNull);
  reader.null();
  EXPECT_FALSE(reader.next_item());
  ASSERT_TRUE(reader.next_key(key));
  reader.skip();
  ASSERT_TRUE(reader.next_key(key));
  EXPECT_EQ(key, "c");
  EXPECT_EQ(dump_json(reader.value()), "[[],7]");
  EXPECT_FALSE(reader.next_key(key));
  reader.finish();
}

TEST(JsonReader, ErrorsNamePositionAndExpectation) {
  const std::pair<std::string, std::string> cases[] = {
      {"", "byte 0: expected a value, found the end"},
      {"[1, 2", "byte 5: expected \",\" or \"]\", found the end"},
      {"[1 2]", "byte 3: expected \",\" or \"]\", found '2]'"},
      {"[1,]", "byte 3: expected a value, found ']'"},
      {"{\"a\":1,}", "byte 7: expected a key, found '}'"},
      {"{1:2}", "byte 1: expected a key, found '1:2}'"},
      {"{\"a\" 1}", "byte 5: expected \":\" after a key"},
      {"[}", "byte 1: expected a value, found '}'"},
      {"1]", "byte 1: expected the end, found ']'"},
      {"{} {}", "byte 3: expected the end, found '{}'"},
      {"\"a\":[2]}", "byte 3: expected the end, found ':[2]}'"},
      {"[\"a\":1]", "byte 4: expected \",\" or \"]\", found ':1]'"},
      {"{\"a\":\"b\":1}", "byte 8: expected"},
      {"NaN", "byte 0: expected a value, found 'NaN'"},
      {"[tru]", "byte 1: expected true or false, found 'tru]'"},
      {"[01]", "byte 1: expected a number, found '01]'"},
      {"[1e999]", "byte 1: expected a number"},
      {"[\"\\x\"]", "byte 1: expected a string with valid escapes"},
      {"[\"\\ud800\"]", "byte 1: expected a string with valid escapes"},  // half a surrogate pair
      {"[\"\\udc00\"]", "byte 1: expected a string with valid escapes"},
      {"{\"\\udc00\":1}", "byte 1: expected a key"},
      {"[\"a\nb\"]", "byte 3: expected no control character in a string, found '\\nb"},
      {"[1, \"ab", "byte 4: expected a string with an end"},
      {"[\"\xff\"]", "byte 2: expected UTF-8"},
      {"[\"\x1b[31m\"]", "expected no control character in a string, found '\\x1b[31m\"]'"},
      {std::string(129, '['), "more than 128 levels deep"},
  };
  for (const auto& [text, expected] : cases) {
    const std::string message = message_of(text);
    EXPECT_TRUE(message.starts_with("x.json: ")) << text << ": " << message;
    EXPECT_NE(message.find(expected), std::string::npos) << text << ": " << message;
    EXPECT_LT(message.size(), 200U) << message;
  }
}

TEST(JsonReader, NamesEncodingsOtherThanUtf8) {
  for (const std::string& text : {"\xff\xfe{\0}\0"s, "\xfe\xff\0{\0}"s, "{\0}\0"s, "\0{\0}"s})
    EXPECT_EQ(message_of(text), "x.json: is text in UTF-16, expected UTF-8");
  EXPECT_EQ(message_of("\xff\xfe\0\0{\0\0\0"s), "x.json: is text in UTF-32, expected UTF-8");
  EXPECT_EQ(dump_json(parse_json("\xef\xbb\xbf[1]", "x")),
            "[1]");  // a byte order mark is allowed
}

TEST(JsonReader, NumbersKeepTheirValueAndType) {
  const Json numbers = parse_json(
      "[18446744073709551615, -9223372036854775808, 123456789012345678901234567890, 1e-400, -0, "
      "2.0]",
      "x");
  EXPECT_EQ(numbers[0].get<uint64_t>(), UINT64_MAX);
  EXPECT_EQ(numbers[1].get<int64_t>(), INT64_MIN);
  EXPECT_EQ(numbers[2].get<double>(), 1.2345678901234568e29);
  EXPECT_EQ(numbers[3].get<double>(), 0.0);
  EXPECT_TRUE(numbers[4].is_number_integer());
  EXPECT_TRUE(numbers[5].is_number_float());
}

TEST(JsonReader, LastOfEqualKeysWins) {
  EXPECT_EQ(dump_json(parse_json(R"({"a":1,"b":2,"a":3})", "x")), R"({"a":3,"b":2})");
}

// Building an object of 200,000 members must not search all members for each key.
TEST(JsonReader, BoundsSizeAndTimeOfTrees) {
  std::string text = "{";
  for (int i = 0; i < 200000; ++i) text += (i > 0 ? ",\"" : "\"") + std::to_string(i) + "\":[]";
  EXPECT_EQ(parse_json(text + "}", "x").size(), 200000U);
  std::string many = "[";
  for (int i = 0; i < 1000000; ++i) many += "0,";
  EXPECT_EQ(message_of("[]"), "");
  try {
    parse_json(many + "0]", "x.json");
    FAIL() << "too many values were read";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kLimit);
    EXPECT_STREQ(error.what(), "x.json: has more than 1000000 values");
  }
}

}  // namespace
}  // namespace veery
