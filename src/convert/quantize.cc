#include "convert/quantize.h"

#include <algorithm>
#include <map>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/printable.h"
#include "convert/energies.h"
#include "dtype/dtype.h"
#include "file/gguf/gguf.h"

namespace veery {
namespace {

// Version of the block formats, in GGUF's numbering.
constexpr int64_t kQuantizationVersion = 2;
constexpr size_t kSliceBytes = size_t{8} << 20;  // written while the next slice is computed
constexpr int64_t kPieceElements = 64 << 10;     // decoded and encoded while in the cache
constexpr int64_t kRowsTogether = 16;            // encoders process 16 blocks at a time

int64_t rows_of(const TensorView& tensor) { return tensor.elements() / tensor.shape.back(); }

/// Converts one tensor from one type to another.
class Conversion {
 public:
  /// `estimated` has importances for tensors that `options` does not cover.
  Conversion(const TensorView& tensor, const TensorPlan& plan, const QuantizeOptions& options,
             const ImportanceMatrix& estimated)
      : tensor_(tensor),
        type_(plan.type),
        columns_(tensor.shape.back()),
        in_row_(byte_size(tensor.dtype, columns_)),
        out_row_(byte_size(plan.type, columns_)) {
    if (!info(type_).quantized) return;
    if (options.importance == nullptr || !find_importance(*options.importance))
      find_importance(estimated);
  }

  size_t out_row() const { return out_row_; }

  /// Computes the rows [first, last) in the new type; one of the workers calls `beside` first.
  template <typename Beside>
  void rows(int64_t first, int64_t last, ThreadPool& pool, std::byte* out, Beside beside) const {
    const int64_t piece =
        std::max<int64_t>(1, kPieceElements / columns_ / kRowsTogether) * kRowsTogether;
    const int64_t pieces = (last - first + piece - 1) / piece;
    pool.parallel_for(1 + pieces, 1, [&](int64_t job, int64_t) {
      if (job == 0) return beside();
      const int64_t begin = first + (job - 1) * piece;
      convert(begin, std::min(begin + piece, last),
              out + static_cast<size_t>(begin - first) * out_row_);
    });
  }

 private:
  bool find_importance(const ImportanceMatrix& matrix) {
    const auto found = matrix.values.find(tensor_.name);
    if (found == matrix.values.end()) return false;
    importance_ = found->second;
    const auto experts =
        static_cast<size_t>(tensor_.shape.size() > 2 ? tensor_.shape[0] : int64_t{1});
    const auto columns = static_cast<size_t>(columns_);
    if (importance_.size() != columns && importance_.size() != columns * experts)
      throw Error(ErrorKind::kInput, "tensor {} has {} columns and {} experts, but {} importances",
                  printable(tensor_.name), columns, experts, importance_.size());
    importance_rows_ = rows_of(tensor_) / static_cast<int64_t>(importance_.size() / columns);
    return true;
  }

  // Returns the importances shared by all rows from `first` on, and reduces `last` to the end of
  // those rows.
  std::span<const float> importance_at(int64_t first, int64_t& last) const {
    if (importance_.empty()) return {};
    const int64_t expert = first / importance_rows_;
    last = std::min(last, (expert + 1) * importance_rows_);
    return importance_.subspan(static_cast<size_t>(expert * columns_),
                               static_cast<size_t>(columns_));
  }

  void convert(int64_t first, int64_t last, std::byte* out) const {
    std::vector<std::byte> read;
    std::span<const std::byte> in;
    const auto size = static_cast<size_t>(last - first) * in_row_;
    if (tensor_.source) {
      read.resize(size);
      tensor_.source->read(first, last, read.data());
      in = read;
    } else {
      in = tensor_.data.subspan(static_cast<size_t>(first) * in_row_, size);
    }
    if (type_ == tensor_.dtype) {
      std::ranges::copy(in, out);
      return;
    }
    std::vector<float> decoded;
    const std::span<const float> values = floats(in, last - first, decoded);
    for (int64_t row = first; row < last;) {
      int64_t end = last;
      const std::span<const float> importance = importance_at(row, end);
      encode_rows(row,
                  values.subspan(static_cast<size_t>((row - first) * columns_),
                                 static_cast<size_t>((end - row) * columns_)),
                  importance, out + static_cast<size_t>(row - first) * out_row_);
      row = end;
    }
  }

  // Returns the floats in place if they are aligned, otherwise in `decoded`.
  std::span<const float> floats(std::span<const std::byte> in, int64_t rows,
                                std::vector<float>& decoded) const {
    const auto count = static_cast<size_t>(rows * columns_);
    if (tensor_.dtype == DType::kF32 &&
        reinterpret_cast<uintptr_t>(in.data()) % alignof(float) == 0)
      return {reinterpret_cast<const float*>(in.data()), count};
    decoded.resize(count);
    decode(tensor_.dtype, in, decoded);
    return decoded;
  }

  void encode_rows(int64_t row, std::span<const float> values, std::span<const float> importance,
                   std::byte* out) const {
    try {
      encode(type_, values, {out, byte_size(type_, static_cast<int64_t>(values.size()))},
             importance);
    } catch (const Error& error) {
      throw Error(error.kind(), "tensor {}, from row {} on: {}", printable(tensor_.name), row,
                  error.what());
    }
  }

  const TensorView& tensor_;
  DType type_;
  int64_t columns_;
  size_t in_row_, out_row_;
  std::span<const float> importance_;  // of each column, one expert after the other
  int64_t importance_rows_ = 1;        // rows that share importances
};

void check_floats(const ModelFile& file, std::span<const TensorPlan> plans) {
  for (size_t i = 0; i < plans.size(); ++i) {
    const TensorView& tensor = file.tensors[i];
    if (plans[i].type != tensor.dtype && info(tensor.dtype).quantized)
      throw Error(
          ErrorKind::kInput,
          "{}: tensor {} is already {}; requantising loses more accuracy than quantising floats "
          "(--allow-requantize permits it)",
          file.path, printable(tensor.name), info(tensor.dtype).name);
  }
}

// Returns whether a tensor is quantised for which no importances were given.
bool needs_estimate(const ModelFile& file, std::span<const TensorPlan> plans,
                    const ImportanceMatrix* given) {
  for (size_t i = 0; i < plans.size(); ++i) {
    const TensorView& tensor = file.tensors[i];
    if (info(plans[i].type).quantized && plans[i].type != tensor.dtype &&
        (given == nullptr || !given->values.contains(tensor.name)))
      return true;
  }
  return false;
}

Metadata unsplit(const Metadata& from) {
  Metadata metadata;
  for (const auto& [key, value] : from.all())
    if (!key.starts_with("split.")) metadata.set(key, value);
  return metadata;
}

}  // namespace

Metadata quantized_metadata(const ModelFile& file, const QuantMix& mix,
                            const ImportanceMatrix* importance,
                            const std::string& importance_file) {
  Metadata metadata = unsplit(file.metadata);
  metadata.set("general.file_type", mix.file_type);
  metadata.set("general.quantization_version", kQuantizationVersion);
  if (importance == nullptr) return metadata;
  metadata.set("quantize.imatrix.file", importance_file);
  if (!importance->datasets.empty())
    metadata.set("quantize.imatrix.dataset", importance->datasets.front());
  metadata.set("quantize.imatrix.entries_count", static_cast<int64_t>(importance->values.size()));
  metadata.set("quantize.imatrix.chunks_count", importance->chunks);
  return metadata;
}

Metadata retyped_metadata(const ModelFile& file, std::span<const TensorPlan> plans) {
  std::map<DType, int64_t> elements;
  for (size_t i = 0; i < plans.size(); ++i) elements[plans[i].type] += file.tensors[i].elements();
  const auto most =
      std::ranges::max_element(elements, {}, [](const auto& entry) { return entry.second; });
  Metadata metadata = unsplit(file.metadata);
  const QuantMix* mix = most == elements.end() ? nullptr : find_quant_mix(most->first);
  if (metadata.find("general.file_type") == nullptr && mix != nullptr)
    metadata.set("general.file_type", mix->file_type);
  metadata.set("general.quantization_version", kQuantizationVersion);
  return metadata;
}

size_t planned_bytes(const TensorView& tensor, const TensorPlan& plan) {
  return byte_size(plan.type, tensor.elements());
}

namespace {

// Writes all tensors in their new types.
void write_tensors(SplitGgufWriter& writer, const ModelFile& file,
                   std::span<const TensorPlan> plans, ThreadPool& pool,
                   const QuantizeOptions& options) {
  size_t total = 0;
  for (size_t i = 0; i < plans.size(); ++i) total += planned_bytes(file.tensors[i], plans[i]);
  ImportanceMatrix estimated;
  if (needs_estimate(file, plans, options.importance)) estimated = estimate_importance(file, pool);
  std::vector<Conversion> conversions;
  for (size_t i = 0; i < plans.size(); ++i)
    conversions.emplace_back(file.tensors[i], plans[i], options, estimated);
  std::vector<std::byte> slice, before;
  // Tensor that has been read to its end when `before` is written.
  const TensorView* read = nullptr;
  const auto finish_before = [&] {
    writer.write(before);
    if (read != nullptr) file.release(*std::exchange(read, nullptr));
  };
  size_t done = 0;
  for (size_t i = 0; i < plans.size(); ++i) {
    const size_t row_bytes = conversions[i].out_row();
    const int64_t rows = rows_of(file.tensors[i]);
    const auto together = static_cast<int64_t>(std::max<size_t>(1, kSliceBytes / row_bytes));
    for (int64_t first = 0; first < rows; first += together) {
      const int64_t last = std::min(rows, first + together);
      slice.resize(static_cast<size_t>(last - first) * row_bytes);
      conversions[i].rows(first, last, pool, slice.data(), finish_before);
      done += slice.size();
      std::swap(slice, before);
      if (options.progress) options.progress(done, total, file.tensors[i].name);
    }
    read = &file.tensors[i];
  }
  finish_before();
}

}  // namespace

void write_quantized(const ModelFile& file, std::span<const TensorPlan> plans,
                     const Metadata& metadata, const std::string& path, ThreadPool& pool,
                     const QuantizeOptions& options) {
  VEERY_CHECK(plans.size() == file.tensors.size());
  if (!options.requantize) check_floats(file, plans);
  std::vector<TensorView> views;
  for (size_t i = 0; i < plans.size(); ++i) {
    const TensorView& tensor = file.tensors[i];
    views.push_back({.name = tensor.name, .dtype = plans[i].type, .shape = tensor.shape});
  }
  std::optional<SplitGgufWriter> writer;
  file.checked([&] {
    writer.emplace(path, metadata, std::move(views), options.split_bytes,
                   OutputRules{options.existing, inputs_of(file), options.replaced});
    write_tensors(*writer, file, plans, pool, options);
  });
  writer->commit();
}

}  // namespace veery
