// Tests of safetensors files: writing and reading back; files with one fault each cause a one-line
// error, never a crash.
#include "file/folder/safetensors.h"

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <chrono>
#include <cstring>
#include <filesystem>

#include "base/error.h"
#include "base/untrusted_file.h"
#include "support/temporary_folder.h"
#include "support/write_model.h"

namespace veery {
namespace {

struct Outcome {
  ErrorKind kind = ErrorKind::kBug;
  std::string message;
};

std::string file_of(std::string_view header, size_t data, uint64_t length) {
  std::string bytes(sizeof length, '\0');
  std::memcpy(bytes.data(), &length, sizeof length);
  bytes += header;
  return bytes + std::string(data, '\1');
}
std::string file_of(std::string_view header, size_t data) {
  return file_of(header, data, header.size());
}

Outcome outcome_of(std::string_view text) {
  // An exact allocation lets AddressSanitizer see any read past the end.
  const std::vector<char> copy(text.begin(), text.end());
  try {
    parse_safetensors(std::as_bytes(std::span(copy)), "x.safetensors");
  } catch (const Error& error) {
    return {error.kind(), error.what()};
  }
  return {};
}

std::string tensor(const std::string& name, const std::string& dtype, const std::string& shape,
                   const std::string& offsets) {
  return fmt::format(R"("{}":{{"dtype":"{}","shape":{},"data_offsets":{}}})", name, dtype, shape,
                     offsets);
}
std::string one(const std::string& dtype, const std::string& shape, const std::string& offsets) {
  return "{" + tensor("t", dtype, shape, offsets) + "}";
}

struct Case {
  const char* name;
  std::string bytes;
  std::vector<std::string> words;
  ErrorKind kind = ErrorKind::kFormat;
};

void check_cases(const std::vector<Case>& cases) {
  for (const Case& c : cases) {
    const Outcome outcome = outcome_of(c.bytes);
    EXPECT_EQ(outcome.kind, c.kind) << c.name << ": " << outcome.message;
    EXPECT_EQ(outcome.message.find('\n'), std::string::npos) << c.name;
    EXPECT_LT(outcome.message.size(), 400U) << c.name;
    EXPECT_TRUE(outcome.message.starts_with("x.safetensors: "))
        << c.name << ": " << outcome.message;
    for (const std::string& word : c.words)
      EXPECT_NE(outcome.message.find(word), std::string::npos)
          << c.name << ": '" << word << "' in: " << outcome.message;
  }
}

std::string nested(size_t depth) {
  return R"({"t":{"dtype":)" + std::string(depth, '[') + std::string(depth, ']') + "}}";
}

std::vector<Case> header_cases() {
  return {
      {"empty", "", {"cut off", "0 bytes"}},
      {"seven bytes", std::string(7, '\0'), {"cut off", "7 bytes"}},
      {"no header", file_of("", 0), {"begins with ''", "expected '{'"}},
      {"length beyond file", file_of("{}", 0, 3), {"length 3", "2 bytes are left"}},
      {"length -1", file_of("{}", 0, ~uint64_t{0}), {"length 18446744073709551615", "at most"}},
      {"length above the limit",
       file_of("{}", 0, kSafetensorsHeader.most_bytes + 1),
       {"100000001"}},
      {"no JSON", file_of("{,}", 0), {"the header: byte 1: expected a key"}},
      {"half a JSON", file_of("{\"t\":", 0), {"the header: byte 5", "found the end"}},
      {"two values", file_of("{} {}", 0), {"byte 3: expected the end"}},
      {"an array", file_of("[1,2]", 0), {"begins with '['"}},
      {"deep arrays", file_of(nested(100000), 0), {"'t': found an array", "a type name"}},
      {"deep objects",
       file_of(R"({"t":{"dtype":{"a":{}}}})", 0),
       {"found an object, expected a type name"}},
      {"number as tensor", file_of(R"({"t":1})", 0), {"'t': found a number, expected an object"}},
      {"metadata number",
       file_of(R"({"__metadata__":{"a":1}})", 0),
       {"__metadata__: found a number"}},
      {"metadata null", file_of(R"({"__metadata__":{"a":null}})", 0), {"__metadata__: found null"}},
      {"metadata text",
       file_of(R"({"__metadata__":"a"})", 0),
       {"found a string, expected an object"}},
      {"metadata nested",
       file_of(R"({"__metadata__":{"a":{}}})", 0),
       {"__metadata__: found an obj"}},
      {"metadata twice",
       file_of(R"({"__metadata__":{},"__metadata__":{}})", 0),
       {"__metadata__ appears twice"}},
      {"data without tensors", file_of("{}", 5), {"end at byte 0", "5 bytes of data"}},
      {"control characters", file_of("{\"a\\n\\u001b\":1}", 0), {R"('a\n\x1b')"}},
  };
}

std::vector<Case> tensor_cases() {
  const auto two = [](const char* first, const char* second, size_t data) {
    return file_of(
        "{" + tensor("a", "F32", "[2]", first) + "," + tensor("b", "F32", "[2]", second) + "}",
        data);
  };
  return {
      {"type",
       file_of(one("F7", "[1]", "[0,1]"), 1),
       {"'t'", "type 'F7'"},
       ErrorKind::kUnsupported},
      {"empty name", file_of("{" + tensor("", "F32", "[1]", "[0,4]") + "}", 4), {"name is empty"}},
      {"no dtype",
       file_of(R"({"t":{"shape":[1],"data_offsets":[0,4]}})", 4),
       {"'t': missing dtype"}},
      {"no shape", file_of(R"({"t":{"dtype":"F32","data_offsets":[0,4]}})", 4), {"missing shape"}},
      {"no offsets", file_of(R"({"t":{"dtype":"F32","shape":[1]}})", 4), {"missing data_offsets"}},
      {"dtype twice",
       file_of(R"({"t":{"dtype":"F32","dtype":"F32"}})", 4),
       {"has duplicate field 'dtype'"}},
      {"unknown field", file_of(R"({"t":{"strides":[1]}})", 4), {"unknown field 'strides'"}},
      {"one offset", file_of(one("F32", "[1]", "[0]"), 4), {"1 data_offsets, expected 2"}},
      {"three offsets", file_of(one("F32", "[1]", "[0,4,4]"), 4), {"more than 2 numbers"}},
      {"many dimensions", file_of(one("F32", "[1,1,1,1,1,1,1,1,1]", "[0,4]"), 4), {"more than 8"}},
      {"negative size", file_of(one("F32", "[-1]", "[0,4]"), 4), {"a negative number"}},
      {"fraction",
       file_of(one("F32", "[1.5]", "[0,4]"), 4),
       {"found a fraction, expected an integer"}},
      {"huge fraction", file_of(one("F32", "[1e99]", "[0,4]"), 4), {"a fraction"}},
      {"number above 64 bits",
       file_of(one("F32", "[99999999999999999999]", "[0,4]"), 4),
       {"fract"}},
      {"text in shape",
       file_of(one("F32", "[\"1\"]", "[0,4]"), 4),
       {"found a string, expected an integer"}},
      {"shape is a number",
       file_of(one("F32", "4", "[0,4]"), 4),
       {"found a number, expected an array"}},
      {"overflow",
       file_of(one("F32", "[4294967296,4294967296]", "[0,4]"), 4),
       {"'t' has more bytes than 63 bits"}},
      {"overflow to 0", file_of(one("F32", "[4611686018427387904]", "[0,0]"), 0), {"more bytes"}},
      {"size -1", file_of(one("U8", "[18446744073709551615]", "[0,0]"), 0), {"more bytes"}},
      {"shape and bytes", file_of(one("F32", "[3]", "[0,8]"), 8), {"8 bytes", "F32 need 12"}},
      {"type and bytes", file_of(one("F16", "[2]", "[0,8]"), 8), {"8 bytes", "F16 need 4"}},
      {"ends before it begins", file_of(one("F32", "[1]", "[8,4]"), 8), {"begins at byte 8"}},
      {"beyond the file", file_of(one("F32", "[2]", "[0,8]"), 4), {"ends at byte 8", "4 bytes"}},
      {"far beyond the file",
       file_of(one("F32", "[1]", "[18446744073709551611,18446744073709551615]"), 4),
       {"ends at byte 18446744073709551615"}},
      {"overlap", two("[0,8]", "[4,12]", 12), {"'b' at byte 4 overlaps 'a', which ends at 8"}},
      {"overlap of equals", two("[0,8]", "[0,8]", 8), {"overlaps"}},
      {"gap", two("[0,8]", "[9,17]", 17), {"gap of 1 bytes before tensor 'b'"}},
      {"gap at the start", two("[4,12]", "[12,20]", 20), {"gap of 4 bytes before tensor 'a'"}},
      {"trailing bytes", two("[0,8]", "[8,16]", 17), {"end at byte 16", "17 bytes of data"}},
      {"name twice",
       file_of(
           "{" + tensor("a", "U8", "[1]", "[0,1]") + "," + tensor("a", "U8", "[1]", "[1,2]") + "}",
           2),
       {"tensor 'a' appears twice"}},
  };
}

TEST(SafetensorsHostile, Headers) { check_cases(header_cases()); }
TEST(SafetensorsHostile, Tensors) { check_cases(tensor_cases()); }

std::string valid_file() {
  const std::string header =
      "{\"__metadata__\":{\"format\":\"pt\"}," + tensor("w", "F32", "[2,3]", "[0,24]") + "," +
      tensor("empty", "BF16", "[0,4]", "[24,24]") + "," + tensor("one", "F16", "[]", "[24,26]") +
      "," + tensor("odd", "U8", "[5]", "[26,31]") + "}  ";
  return file_of(header, 31);
}

TEST(Safetensors, ReadsValidFiles) {
  const std::string bytes = valid_file();
  const SafetensorsFile file = parse_safetensors(std::as_bytes(std::span(bytes)), "x");
  ASSERT_EQ(file.tensors.size(), 4U);
  EXPECT_EQ(file.metadata.at("format"), "pt");
  const StoredTensor* w = file.find("w");
  ASSERT_NE(w, nullptr);
  EXPECT_EQ(w->type, StoredType::kF32);
  EXPECT_EQ(w->shape, (std::vector<int64_t>{2, 3}));
  EXPECT_EQ(w->data.size(), 24U);
  EXPECT_TRUE(file.find("one")->shape.empty());
  EXPECT_EQ(file.find("odd")->data.size(), 5U);
  EXPECT_TRUE(file.find("empty")->data.empty());
  EXPECT_EQ(file.find("absent"), nullptr);
}

TEST(Safetensors, MetadataMayBeNull) {
  const std::string bytes =
      file_of(R"({"__metadata__":null,)" + tensor("w", "U8", "[1]", "[0,1]") + "}", 1);
  const SafetensorsFile file = parse_safetensors(std::as_bytes(std::span(bytes)), "x");
  EXPECT_EQ(file.tensors.size(), 1U);
  EXPECT_TRUE(file.metadata.empty());
}

TEST(SafetensorsHostile, EveryTruncationThrows) {
  const std::string whole = valid_file();
  ASSERT_EQ(outcome_of(whole).message, "");
  for (size_t size = 0; size < whole.size(); ++size) {
    const Outcome outcome = outcome_of(std::string_view(whole).substr(0, size));
    EXPECT_EQ(outcome.kind, ErrorKind::kFormat) << "cut at " << size << ": " << outcome.message;
    EXPECT_NE(outcome.message, "") << "cut at " << size;
  }
}

TEST(SafetensorsHostile, EveryModifiedByteReadsOrThrows) {
  const std::string whole = valid_file();
  size_t thrown = 0;
  for (size_t at = 0; at < whole.size(); ++at)
    for (const char value : {'\x00', '\x01', '"', '[', '{', '9', '\x80', '\xFF'}) {
      std::string bytes = whole;
      bytes[at] = value;
      const Outcome outcome = outcome_of(bytes);
      if (outcome.message.empty()) continue;
      ++thrown;
      EXPECT_NE(outcome.kind, ErrorKind::kBug) << outcome.message;
    }
  EXPECT_GT(thrown, 500U);
}

// A header of 30 MB, which would take 20 times as much as a tree of JSON values.
TEST(SafetensorsHostile, MemoryIsProportionalToHeaderLength) {
  std::string numbers = "[";
  numbers.reserve(30'000'000);
  while (numbers.size() < 29'999'000) numbers += "0,";
  const std::string bytes = file_of(R"({"t":{"dtype":"F32","shape":)" + numbers + "0]}}", 0);
  rusage before = {}, after = {};
  getrusage(RUSAGE_SELF, &before);
  const Outcome outcome = outcome_of(bytes);
  getrusage(RUSAGE_SELF, &after);
  EXPECT_NE(outcome.message.find("more than 8 numbers"), std::string::npos) << outcome.message;
#if !defined(__SANITIZE_ADDRESS__)  // ASan keeps freed memory
  EXPECT_LT(after.ru_maxrss - before.ru_maxrss, 128 * 1024);
#endif
}

TEST(Safetensors, RoundTripsTensorsAndMetadata) {
  const test::TemporaryFolder folder;
  const std::vector<float> weights{1, 2, 3, 4, 5, 6};
  const std::vector<uint8_t> small{7, 8, 9};
  const std::vector<StoredTensor> tensors{
      {"small", StoredType::kU8, {3}, std::as_bytes(std::span(small))},
      {"odd \"name\"", StoredType::kF32, {2, 3}, std::as_bytes(std::span(weights))},
      {"none", StoredType::kI64, {0}, {}}};
  const std::string path = folder.file("a.safetensors");
  test::write_safetensors(path, tensors, {{"format", "pt"}});
  EXPECT_EQ(folder.entries(), 1U);
  const SafetensorsFile file = open_safetensors(path);
  EXPECT_EQ(file.metadata.at("format"), "pt");
  ASSERT_EQ(file.tensors.size(), 3U);
  for (const StoredTensor& wrote : tensors) {
    const StoredTensor* read = file.find(wrote.name);
    ASSERT_NE(read, nullptr) << wrote.name;
    EXPECT_EQ(read->type, wrote.type);
    EXPECT_EQ(read->shape, wrote.shape);
    EXPECT_TRUE(std::ranges::equal(read->data, wrote.data)) << wrote.name;
    EXPECT_EQ(reinterpret_cast<uintptr_t>(read->data.data()) %
                  static_cast<uintptr_t>(byte_size(wrote.type)),
              0U);
  }
}

TEST(Safetensors, RejectsTensorsThatTheFormatCannotRepresent) {
  const test::TemporaryFolder folder;
  const std::vector<float> weights{1, 2, 3};
  const auto data = std::as_bytes(std::span(weights));
  const auto kind_of = [&](const std::vector<StoredTensor>& tensors) {
    try {
      test::write_safetensors(folder.file("a.safetensors"), tensors);
    } catch (const Error& error) {
      return error.kind();
    }
    return ErrorKind::kBug;
  };
  EXPECT_EQ(kind_of({{"t", StoredType::kF32, {-3}, data}}), ErrorKind::kInput);
  EXPECT_EQ(kind_of({{"", StoredType::kF32, {3}, data}}), ErrorKind::kInput);
  EXPECT_EQ(kind_of({{"t", StoredType::kF32, {3}, data}, {"t", StoredType::kF32, {3}, data}}),
            ErrorKind::kInput);
  EXPECT_EQ(folder.entries(), 0U);
  EXPECT_THROW(test::write_safetensors(folder.file("no/a.safetensors"), {}), Error);
}

}  // namespace
}  // namespace veery
