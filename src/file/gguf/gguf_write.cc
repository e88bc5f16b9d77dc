#include <algorithm>
#include <cmath>
#include <limits>
#include <set>

#include "base/error.h"
#include "base/printable.h"
#include "file/gguf/gguf.h"
#include "file/gguf/gguf_format.h"
#include "file/output/pending_file.h"

namespace veery {
namespace {

using gguf::ValueType;

// Appends primitives of the format to a buffer, in which the header is built before it is written.
class Header {
 public:
  template <typename T>
  void number(T value) {
    const char* bytes = reinterpret_cast<const char*>(&value);
    bytes_.append(bytes, sizeof value);
  }
  void type(ValueType type) { number(static_cast<uint32_t>(type)); }
  void string(std::string_view text) {
    number(static_cast<uint64_t>(text.size()));
    bytes_.append(text);
  }
  void append(std::string_view bytes) { bytes_.append(bytes); }
  const std::string& bytes() const { return bytes_; }

 private:
  std::string bytes_;
};

template <typename T>
bool fits(int64_t value) {
  return value >= int64_t{std::numeric_limits<T>::min()} &&
         value <= int64_t{std::numeric_limits<T>::max()};
}

bool fits_f32(double value) {
  if (!std::isfinite(value)) return true;
  return std::fabs(value) <= double{std::numeric_limits<float>::max()} &&
         static_cast<double>(static_cast<float>(value)) == value;
}

template <typename T, typename From>
void put_array(Header& out, ValueType type, const std::vector<From>& values) {
  out.type(ValueType::kArray);
  out.type(type);
  out.number(static_cast<uint64_t>(values.size()));
  for (const From value : values) out.number(static_cast<T>(value));
}

void put(Header& out, bool value) {
  out.type(ValueType::kBool);
  out.number(static_cast<uint8_t>(value ? 1 : 0));
}

void put(Header& out, int64_t value) {
  if (fits<uint32_t>(value)) {
    out.type(ValueType::kUint32);
    out.number(static_cast<uint32_t>(value));
  } else if (fits<int32_t>(value)) {
    out.type(ValueType::kInt32);
    out.number(static_cast<int32_t>(value));
  } else {
    out.type(ValueType::kInt64);
    out.number(value);
  }
}

void put(Header& out, uint64_t value) {
  out.type(ValueType::kUint64);
  out.number(value);
}

void put(Header& out, double value) {
  if (fits_f32(value)) {
    out.type(ValueType::kFloat32);
    out.number(static_cast<float>(value));
  } else {
    out.type(ValueType::kFloat64);
    out.number(value);
  }
}

void put(Header& out, const std::string& value) {
  out.type(ValueType::kString);
  out.string(value);
}

void put(Header& out, const std::vector<int64_t>& values) {
  if (std::ranges::all_of(values, fits<int32_t>))
    put_array<int32_t>(out, ValueType::kInt32, values);
  else if (std::ranges::all_of(values, fits<uint32_t>))
    put_array<uint32_t>(out, ValueType::kUint32, values);
  else
    put_array<int64_t>(out, ValueType::kInt64, values);
}

void put(Header& out, const std::vector<double>& values) {
  if (std::ranges::all_of(values, fits_f32))
    put_array<float>(out, ValueType::kFloat32, values);
  else
    put_array<double>(out, ValueType::kFloat64, values);
}

void put(Header& out, const std::vector<std::string_view>& values) {
  out.type(ValueType::kArray);
  out.type(ValueType::kString);
  out.number(static_cast<uint64_t>(values.size()));
  for (const std::string_view value : values) out.string(value);
}

void check(const TensorView& tensor) {
  if (tensor.name.empty() || tensor.name.size() > gguf::kMaxNameBytes)
    throw Error(ErrorKind::kInput, "write GGUF: found a tensor name of length {}, expected 1 to {}",
                tensor.name.size(), gguf::kMaxNameBytes);
  if (tensor.shape.empty() || tensor.shape.size() > gguf::kMaxDims)
    throw Error(ErrorKind::kInput, "write GGUF: tensor '{}' has {} dimensions, expected 1 to {}",
                printable(tensor.name), tensor.shape.size(), gguf::kMaxDims);
  for (const int64_t size : tensor.shape)
    if (size < 1)
      throw Error(ErrorKind::kInput,
                  "write GGUF: tensor '{}' has a dimension {}, expected 1 or more",
                  printable(tensor.name), size);
  const DTypeInfo& type = info(tensor.dtype);
  if (tensor.shape.back() % type.block != 0)
    throw Error(ErrorKind::kInput,
                "write GGUF: tensor '{}' has rows of {} elements, expected a multiple of {} for {}",
                printable(tensor.name), tensor.shape.back(), type.block, type.name);
}

// Keys that other programs expect in one specific type.
struct TypedKey {
  std::string_view key;
  ValueType type;
};
constexpr TypedKey kTypedKeys[] = {{gguf::kSplitNumberKey, ValueType::kUint16},
                                   {gguf::kSplitCountKey, ValueType::kUint16},
                                   {gguf::kSplitTensorsKey, ValueType::kInt32}};

// Writes a key of kTypedKeys; returns false if the key is not in that table or the value does not
// fit its type.
bool put_typed(Header& out, std::string_view key, const MetaValue& value) {
  const auto row = std::ranges::find(kTypedKeys, key, &TypedKey::key);
  const auto* number = std::get_if<int64_t>(&value);
  if (row == std::end(kTypedKeys) || number == nullptr) return false;
  const bool wide = row->type == ValueType::kInt32;
  if (!(wide ? fits<int32_t>(*number) : fits<uint16_t>(*number))) return false;
  out.type(row->type);
  if (wide)
    out.number(static_cast<int32_t>(*number));
  else
    out.number(static_cast<uint16_t>(*number));
  return true;
}

std::string make_header(const Metadata& metadata, std::span<const TensorView> tensors,
                        uint64_t alignment) {
  Header out;
  out.append(gguf::kMagic);
  out.number(gguf::kNewestVersion);
  out.number(static_cast<uint64_t>(tensors.size()));
  out.number(static_cast<uint64_t>(metadata.all().size()));
  for (const auto& [key, value] : metadata.all()) {
    if (key.empty() || key.size() > gguf::kMaxNameBytes)
      throw Error(ErrorKind::kInput, "write GGUF: found a key of length {}, expected 1 to {}",
                  key.size(), gguf::kMaxNameBytes);
    out.string(key);
    if (!put_typed(out, key, value)) std::visit([&](const auto& typed) { put(out, typed); }, value);
  }
  std::set<std::string_view> names;
  uint64_t offset = 0;
  for (const TensorView& tensor : tensors) {
    check(tensor);
    if (!names.insert(tensor.name).second)
      throw Error(ErrorKind::kInput, "write GGUF: tensor '{}' appears twice",
                  printable(tensor.name));
    out.string(tensor.name);
    out.number(static_cast<uint32_t>(tensor.shape.size()));
    for (size_t i = tensor.shape.size(); i > 0; --i) out.number(tensor.shape[i - 1]);
    out.number(info(tensor.dtype).ggml);
    out.number(offset);
    offset = round_up(offset + tensor.bytes(), alignment);
  }
  return out.bytes();
}

}  // namespace

GgufWriter::GgufWriter(const std::string& path, const Metadata& metadata,
                       std::span<const TensorView> tensors, const OutputRules& rules)
    : file_(path, rules), alignment_(gguf::alignment_of(metadata, path)) {
  const std::string header = make_header(metadata, tensors, alignment_);
  file_.write(header.data(), header.size());
  file_.pad(alignment_);
  for (const TensorView& tensor : tensors) left_.push_back(tensor.bytes());
}

void GgufWriter::write(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    VEERY_CHECK(tensor_ < left_.size());
    const size_t size = std::min(bytes.size(), left_[tensor_]);
    file_.write(bytes.data(), size);
    bytes = bytes.subspan(size);
    left_[tensor_] -= size;
    if (left_[tensor_] > 0) continue;
    file_.pad(alignment_);
    ++tensor_;
  }
}

void GgufWriter::finish() {
  VEERY_CHECK(tensor_ == left_.size());
  file_.finish();
}

void GgufWriter::commit() {
  finish();
  file_.commit();
}

}  // namespace veery
