#include <algorithm>
#include <set>

#include "base/error.h"
#include "base/json.h"
#include "base/untrusted_file.h"
#include "file/folder/safetensors.h"

namespace veery {
namespace {

constexpr uint64_t kDataAlignment = 64;

// Returns the size of the data in bytes.
size_t checked_size(const StoredTensor& tensor) {
  if (tensor.name.empty() || tensor.name == "__metadata__")
    throw Error(ErrorKind::kInput, "write safetensors: a tensor cannot have the name '{}'",
                tensor.name);
  int64_t bytes = byte_size(tensor.type);
  for (const int64_t size : tensor.shape)
    if (size < 0 || __builtin_mul_overflow(bytes, size, &bytes))
      throw Error(ErrorKind::kInput,
                  "write safetensors: tensor '{}' has a dimension {}, expected 0 or more that 63 "
                  "bits can count",
                  tensor.name, size);
  return static_cast<size_t>(bytes);
}

}  // namespace

SafetensorsWriter::SafetensorsWriter(const std::string& path, std::span<const StoredTensor> tensors,
                                     const std::map<std::string, std::string>& metadata)
    : file_(path), places_(tensors.size()) {
  std::vector<size_t> order(tensors.size());
  std::set<std::string_view> names;
  for (size_t i = 0; i < tensors.size(); ++i) {
    order[i] = i;
    places_[i].size = checked_size(tensors[i]);
    if (!names.insert(tensors[i].name).second)
      throw Error(ErrorKind::kInput, "write safetensors: tensor '{}' appears twice",
                  tensors[i].name);
  }
  std::ranges::sort(order, {}, [&](size_t i) {
    return std::pair<int64_t, std::string_view>(-byte_size(tensors[i].type), tensors[i].name);
  });
  std::string text = "{";
  const auto add = [&](const std::string& key, const Json& value) {
    text += (text.size() > 1 ? "," : "") + dump_json(key) + ":" + dump_json(value);
  };
  if (!metadata.empty()) add("__metadata__", metadata);
  uint64_t offset = 0;
  for (const size_t i : order) {
    const uint64_t end = offset + places_[i].size;
    add(tensors[i].name, {{"dtype", name(tensors[i].type)},
                          {"shape", tensors[i].shape},
                          {"data_offsets", {offset, end}}});
    places_[i].begin = offset;
    offset = end;
  }
  left_ = offset;
  text += "}";
  text.resize(round_up(text.size() + sizeof(uint64_t), kDataAlignment) - sizeof(uint64_t), ' ');
  const uint64_t length = text.size();
  if (length > kSafetensorsHeader.most_bytes)
    throw Error(ErrorKind::kInput,
                "write safetensors: the header has {} bytes, expected at most {}", length,
                kSafetensorsHeader.most_bytes);
  file_.write(&length, sizeof length);
  file_.write(text.data(), text.size());
}

void SafetensorsWriter::write(size_t index, size_t offset, std::span<const std::byte> bytes) {
  const Place& place = places_.at(index);
  VEERY_CHECK(offset <= place.size && bytes.size() <= place.size - offset && bytes.size() <= left_);
  left_ -= bytes.size();
  file_.write_at(file_.position() + place.begin + offset, bytes.data(), bytes.size());
}

void SafetensorsWriter::commit() {
  VEERY_CHECK(left_ == 0);
  file_.commit();
}

}  // namespace veery
