#include "file/gguf/imatrix.h"

#include <cmath>
#include <cstring>

#include "base/error.h"
#include "base/mapped_file.h"
#include "base/printable.h"
#include "file/gguf/gguf.h"

namespace veery {
namespace {

constexpr std::string_view kSums = ".in_sum2", kCounts = ".counts";  // names used by llama.cpp

void check_finite(const std::string& file, const std::string& name,
                  const std::vector<float>& values) {
  for (const float value : values)
    if (!(value >= 0) || std::isinf(value))
      throw Error(ErrorKind::kFormat, "{}: the importances of {} hold {}, expected 0 or more", file,
                  printable(name), value);
}

class Reader {
 public:
  Reader(std::span<const std::byte> bytes, const std::string& name) : bytes_(bytes), name_(name) {}
  bool at_end() const { return at_ == bytes_.size(); }
  /// Reads a count or length, which must be followed by at least `unit` bytes per item.
  size_t count(const char* what, size_t unit) {
    int32_t value;
    copy(&value, sizeof value, what);
    if (value < 0 || static_cast<size_t>(value) > (bytes_.size() - at_) / unit)
      throw Error(ErrorKind::kFormat, "{}: {} at byte {} is {}, expected at most {} (what is left)",
                  name_, what, at_ - sizeof value, value, (bytes_.size() - at_) / unit);
    return static_cast<size_t>(value);
  }
  void copy(void* to, size_t size, const char* what) {
    if (size > bytes_.size() - at_)
      throw Error(ErrorKind::kFormat, "{}: ends at byte {} inside {}", name_, bytes_.size(), what);
    std::memcpy(to, bytes_.data() + at_, size);
    at_ += size;
  }

 private:
  std::span<const std::byte> bytes_;
  const std::string& name_;
  size_t at_ = 0;
};

// Divides sums over rows by their counts; `counts` has one number per expert.
std::vector<float> means(const std::vector<float>& sums, const std::vector<float>& counts) {
  std::vector<float> result(sums.size(), 1.0F);
  const size_t columns = sums.size() / counts.size();
  for (size_t i = 0; i < sums.size(); ++i)
    if (counts[i / columns] > 0) result[i] = sums[i] / counts[i / columns];
  return result;
}

std::vector<float> floats(const ModelFile& file, const TensorView& tensor) {
  if (tensor.dtype != DType::kF32)
    throw Error(ErrorKind::kFormat, "{}: tensor {} is {}, expected f32", file.path,
                printable(tensor.name), info(tensor.dtype).name);
  std::vector<float> values(static_cast<size_t>(tensor.elements()));
  std::memcpy(values.data(), tensor.data.data(), values.size() * sizeof(float));
  return values;
}

ImportanceMatrix from_gguf(const ModelFile& file) {
  ImportanceMatrix matrix;
  for (const TensorView& tensor : file.tensors) {
    if (!tensor.name.ends_with(kSums)) continue;
    const std::string name = tensor.name.substr(0, tensor.name.size() - kSums.size());
    const std::vector<float> counts = floats(file, file.at(name + std::string(kCounts)));
    const std::vector<float> sums = floats(file, tensor);
    if (sums.size() % counts.size() != 0)
      throw Error(ErrorKind::kFormat, "{}: {} has {} sums and {} counts, expected a multiple",
                  file.path, printable(name), sums.size(), counts.size());
    std::vector<float>& values = matrix.values[name] = means(sums, counts);
    check_finite(file.path, name, values);
  }
  if (const auto* datasets = file.metadata.texts("imatrix.datasets"))
    matrix.datasets.assign(datasets->begin(), datasets->end());
  matrix.chunks = file.metadata.integer("imatrix.chunk_count").value_or(0);
  if (matrix.values.empty())
    throw Error(ErrorKind::kFormat,
                "{}: missing tensor NAME.in_sum2, expected an importance matrix", file.path);
  return matrix;
}

}  // namespace

ImportanceMatrix parse_old_imatrix(std::span<const std::byte> bytes, const std::string& name) {
  Reader reader(bytes, name);
  ImportanceMatrix matrix;
  const size_t entries = reader.count("the number of entries", 12);
  if (entries == 0) throw Error(ErrorKind::kFormat, "{}: has no entries", name);
  for (size_t i = 0; i < entries; ++i) {
    std::string tensor(reader.count("the length of a name", 1), ' ');
    reader.copy(tensor.data(), tensor.size(), "a name");
    int32_t calls = 0;
    reader.copy(&calls, sizeof calls, "a number of calls");
    std::vector<float> sums(reader.count("a number of values", sizeof(float)));
    if (sums.empty())
      throw Error(ErrorKind::kFormat, "{}: {} has no values", name, printable(tensor));
    reader.copy(sums.data(), sums.size() * sizeof(float), "values");
    std::vector<float>& values = matrix.values[tensor] =
        calls > 0 ? means(sums, {static_cast<float>(calls)}) : sums;
    check_finite(name, tensor, values);
  }
  if (reader.at_end()) return matrix;
  int32_t chunks = 0;
  reader.copy(&chunks, sizeof chunks, "the number of chunks");
  matrix.chunks = chunks;
  if (reader.at_end()) return matrix;
  std::string dataset(reader.count("the length of a name", 1), ' ');
  reader.copy(dataset.data(), dataset.size(), "a name");
  if (!dataset.empty()) matrix.datasets.push_back(dataset);
  return matrix;
}

ImportanceMatrix read_imatrix(const std::string& path) {
  const MappedFile mapped(path);
  const std::span<const std::byte> bytes = mapped.bytes();
  if (bytes.size() < 4 || std::memcmp(bytes.data(), "GGUF", 4) != 0)
    return mapped.checked([&] { return parse_old_imatrix(bytes, path); });
  const ModelFile file = open_gguf(path);
  return file.checked([&] { return from_gguf(file); });
}

void write_imatrix(const std::map<std::string, ImportanceSums>& sums, const ImportanceSource& from,
                   const std::string& path, const OutputRules& rules) {
  Metadata metadata;
  metadata.set("general.type", "imatrix");
  metadata.set_texts("imatrix.datasets", {from.dataset});
  metadata.set("imatrix.chunk_count", from.chunks);
  metadata.set("imatrix.chunk_size", from.chunk_size);
  std::vector<TensorView> tensors;
  std::vector<std::vector<float>> values;
  for (const auto& [name, sum] : sums) {
    const auto experts = std::ssize(sum.counts);
    const auto columns = std::ssize(sum.squares) / experts;
    tensors.push_back({name + std::string(kSums), DType::kF32, {experts, columns}, {}});
    values.emplace_back(sum.squares.begin(), sum.squares.end());
    tensors.push_back({name + std::string(kCounts), DType::kF32, {experts, 1}, {}});
    values.emplace_back(sum.counts.begin(), sum.counts.end());
  }
  GgufWriter writer(path, metadata, tensors, rules);
  for (const std::vector<float>& of : values) writer.write(std::as_bytes(std::span(of)));
  writer.commit();
}

}  // namespace veery
