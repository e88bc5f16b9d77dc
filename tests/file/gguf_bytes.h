// gguf_bytes.h: builds valid and invalid GGUF files field by field for tests of the reader.
#pragma once
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

#include "file/gguf/gguf_format.h"

namespace veery::test {

/// Appends fields without checking them.
class GgufBytes {
 public:
  template <typename T>
  GgufBytes& number(T value) {
    bytes_.append(reinterpret_cast<const char*>(&value), sizeof value);
    return *this;
  }
  GgufBytes& raw(std::string_view text) {
    bytes_.append(text);
    return *this;
  }
  GgufBytes& string(std::string_view text) {
    return number(static_cast<uint64_t>(text.size())).raw(text);
  }
  GgufBytes& header(uint64_t tensors, uint64_t keys, uint32_t version = 3) {
    return raw("GGUF").number(version).number(tensors).number(keys);
  }
  GgufBytes& key(std::string_view name, gguf::ValueType type) {
    return string(name).number(static_cast<uint32_t>(type));
  }
  GgufBytes& array(std::string_view name, gguf::ValueType element, uint64_t count) {
    return key(name, gguf::ValueType::kArray).number(static_cast<uint32_t>(element)).number(count);
  }
  /// `dims` starts with the fastest dimension, as in files.
  GgufBytes& tensor(std::string_view name, const std::vector<int64_t>& dims, uint32_t type,
                    uint64_t offset) {
    string(name).number(static_cast<uint32_t>(dims.size()));
    for (const int64_t size : dims) number(size);
    return number(type).number(offset);
  }
  GgufBytes& pad(size_t alignment = 32) {
    while (bytes_.size() % alignment != 0) bytes_.push_back('\0');
    return *this;
  }
  GgufBytes& zeros(size_t count) {
    bytes_.append(count, '\0');
    return *this;
  }
  const std::string& text() const { return bytes_; }
  std::span<const std::byte> span() const { return std::as_bytes(std::span(bytes_)); }

 private:
  std::string bytes_;
};

/// Returns a file with two tensors and a key of every value type.
inline GgufBytes valid_gguf() {
  using gguf::ValueType;
  GgufBytes b;
  b.header(2, 15);
  b.key("a.u8", ValueType::kUint8).number(uint8_t{200});
  b.key("a.i8", ValueType::kInt8).number(int8_t{-100});
  b.key("a.u16", ValueType::kUint16).number(uint16_t{60000});
  b.key("a.i16", ValueType::kInt16).number(int16_t{-30000});
  b.key("a.u32", ValueType::kUint32).number(uint32_t{4000000000});
  b.key("a.i32", ValueType::kInt32).number(int32_t{-2000000000});
  b.key("a.f32", ValueType::kFloat32).number(0.25F);
  b.key("a.bool", ValueType::kBool).number(uint8_t{1});
  b.key("a.text", ValueType::kString).string("hello");
  b.key("a.u64", ValueType::kUint64).number(~uint64_t{0});
  b.key("a.i64", ValueType::kInt64).number(int64_t{-5000000000});
  b.key("a.f64", ValueType::kFloat64).number(0.1);
  b.array("b.texts", ValueType::kString, 3).string("x").string("").string("yz");
  b.array("b.ints", ValueType::kInt16, 2).number(int16_t{-1}).number(int16_t{7});
  b.array("b.floats", ValueType::kFloat32, 1).number(1.5F);
  b.tensor("t.first", {32, 2}, 8, 0);      // q8_0: 68 bytes
  b.tensor("t.second", {3, 1, 5}, 0, 96);  // f32: 60 bytes
  b.pad();
  for (int i = 0; i < 156; ++i) b.number(static_cast<uint8_t>(i));
  return b;
}

}  // namespace veery::test
