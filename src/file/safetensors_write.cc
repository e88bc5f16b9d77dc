#include <algorithm>
#include <set>

#include "base/error.h"
#include "base/json.h"
#include "file/pending_file.h"
#include "file/safetensors.h"

namespace veery {
namespace {

constexpr uint64_t kDataAlignment = 64;

void check(const StoredTensor& tensor) {
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
  if (tensor.data.size() != static_cast<size_t>(bytes))
    throw Error(ErrorKind::kInput,
                "write safetensors: tensor '{}' has {} bytes, expected {} for its shape",
                tensor.name, tensor.data.size(), bytes);
}

}  // namespace

void write_safetensors(const std::string& path, std::span<const StoredTensor> tensors,
                       const std::map<std::string, std::string>& metadata) {
  std::vector<const StoredTensor*> order;
  std::set<std::string_view> names;
  for (const StoredTensor& tensor : tensors) {
    check(tensor);
    if (!names.insert(tensor.name).second)
      throw Error(ErrorKind::kInput, "write safetensors: tensor '{}' appears twice", tensor.name);
    order.push_back(&tensor);
  }
  std::ranges::sort(order, {}, [](const StoredTensor* t) {
    return std::pair<int64_t, std::string_view>(-byte_size(t->type), t->name);
  });
  std::string text = "{";
  const auto add = [&](const std::string& key, const Json& value) {
    text += (text.size() > 1 ? "," : "") + dump_json(key) + ":" + dump_json(value);
  };
  if (!metadata.empty()) add("__metadata__", metadata);
  uint64_t offset = 0;
  for (const StoredTensor* tensor : order) {
    const uint64_t end = offset + tensor->data.size();
    add(tensor->name,
        {{"dtype", name(tensor->type)}, {"shape", tensor->shape}, {"data_offsets", {offset, end}}});
    offset = end;
  }
  text += "}";
  text.resize(round_up(text.size() + sizeof(uint64_t), kDataAlignment) - sizeof(uint64_t), ' ');
  const uint64_t length = text.size();
  if (length > kMaxSafetensorsHeader)
    throw Error(ErrorKind::kInput,
                "write safetensors: the header has {} bytes, expected at most {}", length,
                kMaxSafetensorsHeader);
  PendingFile file(path);
  file.write(&length, sizeof length);
  file.write(text.data(), text.size());
  for (const StoredTensor* tensor : order) file.write(tensor->data.data(), tensor->data.size());
  file.commit();
}

}  // namespace veery
