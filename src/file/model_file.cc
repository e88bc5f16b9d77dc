#include "file/model_file.h"

#include <algorithm>
#include <limits>

#include "base/error.h"
#include "base/printable.h"

namespace veery {
namespace {

constexpr std::string_view kTypeNames[] = {
    "a bool",   "an integer",           "an integer",         "a float",
    "a string", "an array of integers", "an array of floats", "an array of strings"};
static_assert(std::size(kTypeNames) == std::variant_size_v<MetaValue>);

[[noreturn]] void wrong_type(const std::string& key, const MetaValue& value,
                             std::string_view expected) {
  throw Error(ErrorKind::kFormat, "metadata '{}': found {}, expected {}", printable(key),
              kTypeNames[value.index()], expected);
}

// Returns the value of `key` as T; nullptr if the key is absent.
template <typename T>
const T* get(const Metadata& metadata, const std::string& key, std::string_view expected) {
  const MetaValue* value = metadata.find(key);
  if (value == nullptr) return nullptr;
  const T* typed = std::get_if<T>(value);
  if (typed == nullptr) wrong_type(key, *value, expected);
  return typed;
}

}  // namespace

void Metadata::set_texts(std::string key, std::vector<std::string> texts) {
  const auto held = std::make_shared<const std::vector<std::string>>(std::move(texts));
  held_.push_back(held);
  set(std::move(key), std::vector<std::string_view>(held->begin(), held->end()));
}

void Metadata::drop_arrays() {
  held_.clear();
  std::erase_if(values_, [](const auto& entry) {
    return std::holds_alternative<std::vector<int64_t>>(entry.second) ||
           std::holds_alternative<std::vector<double>>(entry.second) ||
           std::holds_alternative<std::vector<std::string_view>>(entry.second);
  });
}

const MetaValue* Metadata::find(const std::string& key) const {
  const auto found = values_.find(key);
  return found == values_.end() ? nullptr : &found->second;
}

std::optional<int64_t> Metadata::integer(const std::string& key) const {
  const MetaValue* value = find(key);
  if (value == nullptr) return std::nullopt;
  if (const auto* number = std::get_if<int64_t>(value)) return *number;
  const auto* number = std::get_if<uint64_t>(value);
  if (number == nullptr) wrong_type(key, *value, "an integer");
  if (*number > static_cast<uint64_t>(std::numeric_limits<int64_t>::max()))
    throw Error(ErrorKind::kFormat, "metadata '{}': found {}, expected less than 2^63",
                printable(key), *number);
  return static_cast<int64_t>(*number);
}

std::optional<double> Metadata::number(const std::string& key) const {
  const MetaValue* value = find(key);
  if (value == nullptr) return std::nullopt;
  if (const auto* real = std::get_if<double>(value)) return *real;
  if (const auto* whole = std::get_if<int64_t>(value)) return static_cast<double>(*whole);
  if (const auto* whole = std::get_if<uint64_t>(value)) return static_cast<double>(*whole);
  wrong_type(key, *value, "a number");
}

std::optional<bool> Metadata::boolean(const std::string& key) const {
  const bool* value = get<bool>(*this, key, "a bool");
  return value == nullptr ? std::nullopt : std::optional<bool>(*value);
}

std::optional<std::string> Metadata::text(const std::string& key) const {
  const auto* value = get<std::string>(*this, key, "a string");
  return value == nullptr ? std::nullopt : std::optional<std::string>(*value);
}

const std::vector<std::string_view>* Metadata::texts(const std::string& key) const {
  return get<std::vector<std::string_view>>(*this, key, "an array of strings");
}

const std::vector<int64_t>* Metadata::integers(const std::string& key) const {
  return get<std::vector<int64_t>>(*this, key, "an array of integers");
}

const std::vector<double>* Metadata::numbers(const std::string& key) const {
  return get<std::vector<double>>(*this, key, "an array of floats");
}

int64_t TensorView::elements() const {
  int64_t product = 1;
  for (const int64_t size : shape) product *= size;
  return product;
}

size_t TensorView::bytes() const { return byte_size(dtype, elements()); }

std::span<const std::byte> TensorView::read(std::vector<std::byte>& buffer) const {
  if (!source) return data;
  buffer.resize(bytes());
  source->read(0, elements() / std::max<int64_t>(1, columns()), buffer.data());
  return buffer;
}

bool same_tensor(const TensorView& a, const TensorView& b) {
  if (a.dtype != b.dtype || a.shape != b.shape) return false;
  std::vector<std::byte> of_a, of_b;
  return std::ranges::equal(a.read(of_a), b.read(of_b));
}

const TensorView* ModelFile::find(std::string_view name) const {
  for (const TensorView& tensor : tensors)
    if (tensor.name == name) return &tensor;
  return nullptr;
}

const TensorView& ModelFile::at(std::string_view name) const {
  const TensorView* tensor = find(name);
  if (tensor == nullptr)
    throw Error(ErrorKind::kFormat, "{}: has no tensor '{}' (it has {} others)", path,
                printable(name), tensors.size());
  return *tensor;
}

void ModelFile::check_unchanged() const {
  for (const auto& mapping : mappings) mapping->check_unchanged();
}

void ModelFile::release_all() const {
  for (const auto& mapping : mappings) mapping->release(mapping->bytes());
}

std::shared_ptr<MappedFile> ModelFile::mapping_of(const TensorView& tensor) const {
  const std::byte* data = tensor.data.data();
  for (const auto& mapping : mappings) {
    const std::span<const std::byte> whole = mapping->bytes();
    if (data >= whole.data() && data < whole.data() + whole.size()) return mapping;
  }
  return nullptr;
}

void ModelFile::release(const TensorView& tensor, size_t begin, size_t bytes) const {
  if (const auto mapping = mapping_of(tensor))
    mapping->release(tensor.data.subspan(begin, std::min(bytes, tensor.data.size() - begin)));
}

}  // namespace veery
