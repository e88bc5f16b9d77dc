#include <algorithm>
#include <filesystem>
#include <limits>

#include "base/error.h"
#include "base/printable.h"
#include "file/gguf/gguf.h"
#include "file/gguf/gguf_format.h"

namespace veery {
namespace {

constexpr int64_t kMaxParts = 65535;  // split.no has 16 bits

// Returns the number of parts; 0 if the model is not split.
int64_t parts_of(const ModelFile& model) {
  const int64_t count = model.metadata.integer(gguf::kSplitCountKey).value_or(0);
  if (count < 0 || count > kMaxParts)
    throw Error(ErrorKind::kFormat, "{}: {} is {}, expected 0 to {}", model.path,
                gguf::kSplitCountKey, count, kMaxParts);
  return count > 1 ? count : 0;
}

std::string suffix(int64_t number, int64_t count) {
  return fmt::format("-{:05}-of-{:05}.gguf", number + 1, count);
}

ModelFile open_part(const std::string& path) {
  auto mapping = std::make_shared<MappedFile>(path);
  ModelFile model = mapping->checked([&] { return gguf::parse_part(mapping->bytes(), path); });
  model.mappings.push_back(std::move(mapping));
  return model;
}

void check_part(const ModelFile& part, int64_t number, int64_t count) {
  const auto found = part.metadata.integer(gguf::kSplitNumberKey);
  if (parts_of(part) != count || found.value_or(-1) != number)
    throw Error(ErrorKind::kFormat, "{}: is part {} of {}, expected part {} of {}", part.path,
                found.value_or(-1) + 1, parts_of(part), number + 1, count);
}

// Adds the tensors of `part` to `model`, and the keys that `model` lacks.
void append(ModelFile& model, ModelFile part) {
  for (const auto& [key, value] : part.metadata.all())
    if (model.metadata.find(key) == nullptr) model.metadata.set(key, value);
  std::ranges::move(part.tensors, std::back_inserter(model.tensors));
  std::ranges::move(part.mappings, std::back_inserter(model.mappings));
}

void check_whole(const ModelFile& model) {
  const auto promised = model.metadata.integer(gguf::kSplitTensorsKey);
  if (promised && *promised != static_cast<int64_t>(model.tensors.size()))
    throw Error(ErrorKind::kFormat, "{}: the parts have {} tensors, {} says {}", model.path,
                model.tensors.size(), gguf::kSplitTensorsKey, *promised);
  std::vector<std::string_view> names;
  for (const TensorView& tensor : model.tensors) names.push_back(tensor.name);
  std::ranges::sort(names);
  const auto twice = std::ranges::adjacent_find(names);
  if (twice != names.end())
    throw Error(ErrorKind::kFormat, "{}: tensor '{}' is in two parts", model.path,
                printable(*twice));
}

}  // namespace

ModelFile parse_gguf(std::span<const std::byte> bytes, const std::string& name) {
  ModelFile model = gguf::parse_part(bytes, name);
  if (const int64_t count = parts_of(model); count > 0)
    throw Error(ErrorKind::kUnsupported, "{}: is one of {} parts of a split model", name, count);
  return model;
}

ModelFile open_gguf(const std::string& path) {
  ModelFile given = open_part(path);
  const int64_t count = parts_of(given);
  if (count == 0) return given;
  const int64_t number = given.metadata.integer(gguf::kSplitNumberKey).value_or(-1);
  if (number < 0 || number >= count || !path.ends_with(suffix(number, count)))
    throw Error(ErrorKind::kFormat, "{}: is part {} of {}, expected a name that ends in {}", path,
                number + 1, count, suffix(std::clamp<int64_t>(number, 0, count - 1), count));
  const std::string stem = path.substr(0, path.size() - suffix(number, count).size());
  ModelFile model;
  for (int64_t i = 0; i < count; ++i) {
    ModelFile part = i == number ? std::move(given) : open_part(stem + suffix(i, count));
    check_part(part, i, count);
    if (i == 0)
      model = std::move(part);
    else
      append(model, std::move(part));
  }
  model.path = path;
  check_whole(model);
  return model;
}

SplitGgufWriter::SplitGgufWriter(const std::string& path, const Metadata& metadata,
                                 std::vector<TensorView> tensors, uint64_t limit, OutputRules rules)
    : path_(path),
      metadata_(metadata),
      tensors_(std::move(tensors)),
      parts_(1),
      rules_(std::move(rules)) {
  for (size_t i = 0; i < tensors_.size(); ++i) {
    const size_t bytes = tensors_[i].bytes();
    if (limit > 0 && parts_.back().bytes > 0 && parts_.back().bytes + bytes > limit)
      parts_.push_back({i, i, 0});
    parts_.back().bytes += bytes;
    parts_.back().end = i + 1;
  }
  if (std::ssize(parts_) > kMaxParts)
    throw Error(ErrorKind::kLimit,
                "{}: needs {} parts of at most {} bytes, expected at most {} parts", path,
                parts_.size(), limit, kMaxParts);
  for (const std::string& name : names()) file_to_write(name, rules_);
  open_next();
}

void SplitGgufWriter::open_next() {
  const size_t number = writers_.size();
  const Part& part = parts_.at(number);
  const std::span<const TensorView> tensors =
      std::span(tensors_).subspan(part.begin, part.end - part.begin);
  left_ = part.bytes;
  if (parts_.size() == 1) {
    writers_.push_back(std::make_unique<GgufWriter>(path_, metadata_, tensors, rules_));
    return;
  }
  Metadata metadata;
  if (number == 0) metadata = metadata_;
  if (const MetaValue* alignment = metadata_.find(gguf::kAlignmentKey))
    metadata.set(gguf::kAlignmentKey, *alignment);
  const auto count = std::ssize(parts_);
  metadata.set(gguf::kSplitNumberKey, static_cast<int64_t>(number));
  metadata.set(gguf::kSplitCountKey, static_cast<int64_t>(count));
  metadata.set(gguf::kSplitTensorsKey, static_cast<int64_t>(tensors_.size()));
  writers_.push_back(std::make_unique<GgufWriter>(name_of(number), metadata, tensors, rules_));
}

std::string SplitGgufWriter::name_of(size_t number) const {
  if (parts_.size() == 1) return path_;
  constexpr std::string_view kEnding = ".gguf";
  std::string stem = path_;
  if (stem.ends_with(kEnding)) stem.resize(stem.size() - kEnding.size());
  return stem + suffix(static_cast<int64_t>(number), std::ssize(parts_));
}

std::vector<std::string> SplitGgufWriter::names() const {
  std::vector<std::string> names;
  for (size_t i = 0; i < parts_.size(); ++i) names.push_back(name_of(i));
  return names;
}

void SplitGgufWriter::write(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    if (left_ == 0) {
      writers_.back()->finish();
      open_next();
    }
    const size_t size = std::min(bytes.size(), left_);
    writers_.back()->write(bytes.first(size));
    bytes = bytes.subspan(size);
    left_ -= size;
  }
}

void SplitGgufWriter::commit() {
  VEERY_CHECK(writers_.size() == parts_.size() && left_ == 0);
  writers_.back()->finish();
  std::vector<std::string> created;  // parts that replaced no file
  const PendingHold together;
  try {
    for (size_t i = 0; i < writers_.size(); ++i) {
      std::string name = name_of(i);
      const bool is_new = !std::filesystem::exists(std::filesystem::symlink_status(name));
      writers_[i]->commit();
      if (is_new) created.push_back(std::move(name));
    }
  } catch (...) {
    std::error_code ignored;
    for (const std::string& name : created) std::filesystem::remove(name, ignored);
    throw;
  }
}

}  // namespace veery
