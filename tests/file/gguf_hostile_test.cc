// Tests of files with one fault each: a one-line error with the position and both numbers, never a
// crash.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "base/error.h"
#include "file/gguf/gguf.h"
#include "gguf_bytes.h"

namespace veery {
namespace {

using gguf::ValueType;

// The error that parsing threw; the message is empty if none.
struct Outcome {
  ErrorKind kind = ErrorKind::kBug;
  std::string message;
};

Outcome outcome_of(std::span<const std::byte> bytes) {
  // An exact allocation lets AddressSanitizer see any read past the end.
  const std::vector<std::byte> copy(bytes.begin(), bytes.end());
  try {
    parse_gguf(copy, "x.gguf");
  } catch (const Error& error) {
    return {error.kind(), error.what()};
  }
  return {};
}

struct Case {
  const char* name;
  test::GgufBytes bytes;
  std::vector<std::string> words;
  ErrorKind kind = ErrorKind::kFormat;
};

constexpr uint64_t kHuge = uint64_t{1} << 62;
constexpr uint64_t kMost = ~uint64_t{0};
constexpr int64_t kBig = int64_t{1} << 62;

test::GgufBytes b() { return {}; }
test::GgufBytes one_key() { return test::GgufBytes().header(0, 1); }
test::GgufBytes one_tensor() { return test::GgufBytes().header(1, 0); }

test::GgufBytes one_array(ValueType element, uint64_t count) {
  return one_key().array("k", element, count).zeros(64);
}

test::GgufBytes aligned_to(uint32_t alignment) {
  return one_key().key("general.alignment", ValueType::kUint32).number(alignment);
}

test::GgufBytes two_tensors(uint64_t first, uint64_t second) {
  return b().header(2, 0).tensor("a", {20}, 0, first).tensor("b", {20}, 0, second).pad().zeros(256);
}

std::vector<Case> header_cases() {
  return {
      {"empty", b(), {"x.gguf", "empty", "GGUF"}},
      {"magic", b().raw("GGML").zeros(64), {"magic is 'GGML'", "expected 'GGUF'"}},
      {"magic in binary", b().raw("\x01\n\xFF\x7F").zeros(64), {"magic is '\\x01", "not a GGUF"}},
      {"version 0", b().header(0, 0, 0), {"version is 0", "2 to 3"}},
      {"version 1", b().header(0, 0, 1), {"version is 1", "2 to 3"}},
      {"version 4", b().header(0, 0, 4), {"version is 4", "2 to 3"}},
      {"big endian", b().header(0, 0, 0x03000000), {"big-endian"}, ErrorKind::kUnsupported},
      {"tensor count", b().header(kHuge, 0), {"tensor count is 4611686018427387904", "at most"}},
      {"tensor count -1", b().header(kMost, 0), {"tensor count is 18446744073709551615"}},
      {"key count", b().header(0, kHuge), {"key count is", "0 bytes left", "at most 0"}},
      {"key count by one",
       b().header(0, 2).key("k", ValueType::kBool).number(uint8_t{0}),
       {"key count is 2", "at most 1"}},
  };
}

std::vector<Case> metadata_cases() {
  return {
      {"key length",
       one_key().number(kHuge).zeros(64),
       {"key 1 of 1", "length 4611686018427387904"}},
      {"key length -1", one_key().number(kMost).zeros(64), {"key 1 of 1 has length 1844674"}},
      {"empty key", one_key().string("").zeros(64), {"key 1 has length 0", "expected 1 to 65535"}},
      {"long key", one_key().string(std::string(70000, 'k')).zeros(9), {"length 70000"}},
      {"value type 13",
       one_key().string("k").number(uint32_t{13}).zeros(64),
       {"key 'k'", "unknown value type 13", "0 to 12"}},
      {"value type -1", one_key().string("k").number(~uint32_t{0}).zeros(64), {"type 4294967295"}},
      {"bool of 2",
       one_key().key("k", ValueType::kBool).number(uint8_t{2}).zeros(9),
       {"key 'k'", "bool of value 2"}},
      {"text length",
       one_key().key("k", ValueType::kString).number(kMost).zeros(9),
       {"value of key 'k'", "length 18446744073709551615", "9 bytes left"}},
      {"array count",
       one_array(ValueType::kInt32, kHuge),
       {"array count of key 'k'", "at most 16"}},
      {"array count wraps", one_array(ValueType::kInt64, (kHuge / 2) + 1), {"at most 8"}},
      {"text array count", one_array(ValueType::kString, 9), {"array count", "at most 8"}},
      {"text in array",
       one_key().array("k", ValueType::kString, 2).string("a").number(kMost),
       {"string 1 of key 'k'", "0 bytes left"}},
      {"array element type",
       one_key().array("k", static_cast<ValueType>(77), 1).zeros(64),
       {"key 'k'", "unknown value type 77"}},
      {"array of arrays",
       one_array(ValueType::kArray, 1),
       {"'k'", "array of arrays"},
       ErrorKind::kUnsupported},
      {"u64 in array",
       one_key().array("k", ValueType::kUint64, 1).number(kMost),
       {"key 'k'", "18446744073709551615", "2^63"}},
      {"key twice",
       b().header(0, 2)
           .key("k", ValueType::kInt64)
           .number(kBig)
           .key("k", ValueType::kInt64)
           .number(kBig),
       {"key 'k' appears twice"}},
      {"control characters",
       one_key().string("k\n\x1B").number(uint32_t{99}).zeros(9),
       {"'k\\n\\x1b'"}},
      {"alignment 0", aligned_to(0), {"general.alignment is 0", "power of two"}},
      {"alignment 24", aligned_to(24), {"general.alignment is 24", "power of two"}},
      {"alignment 2^31", aligned_to(1U << 31), {"general.alignment is 2147483648"}},
      {"alignment text",
       one_key().key("general.alignment", ValueType::kString).string("32"),
       {"general.alignment is not a number"}},
      {"split",
       one_key().key("split.count", ValueType::kUint16).number(uint16_t{3}),
       {"one of 3 parts"},
       ErrorKind::kUnsupported},
  };
}

std::vector<Case> tensor_cases() {
  const auto with_dims = [](const std::vector<int64_t>& dims, uint32_t type = 0) {
    return one_tensor().tensor("t", dims, type, 0).pad().zeros(256);
  };
  return {
      {"name length", one_tensor().number(kMost).zeros(64), {"name of tensor 1", "length 1844674"}},
      {"empty name", one_tensor().tensor("", {1}, 0, 0).pad().zeros(64), {"tensor 1", "length 0"}},
      {"no dimensions", with_dims({}), {"tensor 't'", "0 dimensions", "1 to 4"}},
      {"five dimensions", with_dims({1, 1, 1, 1, 1}), {"tensor 't'", "5 dimensions", "1 to 4"}},
      {"many dimensions",
       one_tensor().string("t").number(~uint32_t{0}).zeros(64),
       {"4294967295 dimensions"}},
      {"dimension 0", with_dims({4, 0}), {"dimension 1 of size 0"}},
      {"negative dimension", with_dims({-4}), {"dimension 0 of size -4"}},
      {"two negative dimensions", with_dims({-4, -4}), {"size -4"}},
      {"elements overflow", with_dims({kBig, 4}), {"tensor 't'", "more elements"}},
      {"elements wrap to 0", with_dims({kBig, kBig, 16}), {"more elements"}},
      {"bytes overflow", with_dims({kBig}, 28), {"tensor 't'", "more bytes"}},
      {"bytes beyond file", with_dims({int64_t{1} << 40}), {"'t' needs 4398046511104 bytes"}},
      {"type 99", with_dims({32}, 99), {"tensor 't'", "unknown type 99"}},
      {"type 4", with_dims({32}, 4), {"unknown type 4"}},
      {"type q1_0", with_dims({256}, 41), {"type 41 (q1_0)"}, ErrorKind::kUnsupported},
      {"block", with_dims({33}, 2), {"rows of 33 elements", "multiple of 32 for q4_0"}},
      {"block of K", with_dims({32, 8}, 12), {"rows of 32 elements", "256 for q4_K"}},
      {"offset alignment", two_tensors(0, 88), {"tensor 'b' has offset 88", "multiple of 32"}},
      {"offset beyond", two_tensors(0, 288), {"tensor 'b'", "80 bytes at offset 288", "256 bytes"}},
      {"offset -32", two_tensors(0, kMost - 31), {"'b'", "offset 18446744073709551584"}},
      {"last bytes missing", two_tensors(0, 192), {"'b' needs 80 bytes at offset 192"}},
      {"overlap",
       two_tensors(0, 64),
       {"tensor 'b' at offset 64 overlaps tensor 'a'", "ends at 80"}},
      {"overlap of equals", two_tensors(96, 96), {"overlaps", "ends at 176"}},
      {"overlap reversed", two_tensors(64, 0), {"tensor 'a' at offset 64 overlaps tensor 'b'"}},
      {"name twice",
       b().header(2, 0).tensor("a", {1}, 0, 0).tensor("a", {1}, 0, 32).pad().zeros(64),
       {"tensor 'a' appears twice"}},
      {"no data", one_tensor().tensor("t", {1}, 0, 0), {"data starts at byte 64", "ends at 57"}},
  };
}

void check_cases(const std::vector<Case>& cases) {
  for (const Case& c : cases) {
    const Outcome outcome = outcome_of(c.bytes.span());
    EXPECT_EQ(outcome.kind, c.kind) << c.name << ": " << outcome.message;
    EXPECT_EQ(outcome.message.find('\n'), std::string::npos) << c.name;
    EXPECT_TRUE(outcome.message.starts_with("x.gguf: ")) << c.name << ": " << outcome.message;
    for (const std::string& word : c.words)
      EXPECT_NE(outcome.message.find(word), std::string::npos)
          << c.name << ": '" << word << "' in: " << outcome.message;
  }
}

TEST(GgufHostile, Headers) { check_cases(header_cases()); }
TEST(GgufHostile, Metadata) { check_cases(metadata_cases()); }
TEST(GgufHostile, Tensors) { check_cases(tensor_cases()); }

TEST(GgufHostile, EveryCutThrows) {
  const test::GgufBytes whole = test::valid_gguf();
  ASSERT_EQ(outcome_of(whole.span()).message, "");
  for (size_t size = 0; size < whole.span().size(); ++size) {
    const Outcome outcome = outcome_of(whole.span().first(size));
    EXPECT_EQ(outcome.kind, ErrorKind::kFormat) << "cut at " << size << ": " << outcome.message;
    EXPECT_NE(outcome.message, "") << "cut at " << size;
  }
}

TEST(GgufHostile, EveryChangedByteReadsOrThrows) {
  const std::string whole = test::valid_gguf().text();
  size_t thrown = 0;
  for (size_t at = 0; at < whole.size(); ++at)
    for (const char value : {'\x00', '\x01', '\x7F', '\x80', '\xFF'}) {
      std::string bytes = whole;
      bytes[at] = value;
      const Outcome outcome = outcome_of(std::as_bytes(std::span(bytes)));
      if (outcome.message.empty()) continue;
      ++thrown;
      EXPECT_NE(outcome.kind, ErrorKind::kBug) << outcome.message;
    }
  EXPECT_GT(thrown, 500U);
}

}  // namespace
}  // namespace veery
