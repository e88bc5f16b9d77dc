// quantize.h: a model's tensors in other types, written as GGUF.
#pragma once
#include <functional>
#include <optional>
#include <span>
#include <string>

#include "base/thread_pool.h"
#include "convert/quant_mix.h"
#include "file/gguf/imatrix.h"
#include "file/output/output_path.h"

namespace veery {

/// What the file will say of itself: the metadata of `file` with general.file_type and where the
/// importances came from, without the numbers of a split file.
Metadata quantized_metadata(const ModelFile& file, const QuantMix& mix,
                            const ImportanceMatrix* importance, const std::string& importance_file);

/// Bytes of a tensor after `plan`.
size_t planned_bytes(const TensorView& tensor, const TensorPlan& plan);

/// The same for tensors that change their types without a mix: general.file_type as it was,
/// else that of most elements.
Metadata retyped_metadata(const ModelFile& file, std::span<const TensorPlan> plans);

struct QuantizeOptions {
  /// What it does not name is estimated from the weights, as far as that can be.
  const ImportanceMatrix* importance = nullptr;
  bool requantize = false;   ///< tensors that are quantised already may change their type
  uint64_t split_bytes = 0;  ///< the most data that a file holds; 0: one file
  Existing existing = Existing::kReplace;        ///< files with the names of outputs
  std::vector<std::string>* replaced = nullptr;  ///< gets their names; null: nobody asks
  /// Told after each piece: bytes written, bytes in all, the tensor.
  std::function<void(size_t, size_t, const std::string&)> progress;
};

/// Writes `file` to `path`, each tensor as its plan says: a slice of rows at a time, rows spread
/// over `pool`. Throws kInput naming tensor and element where a value cannot be encoded, where
/// importances do not fit a tensor, or a tensor is quantised already; as file_to_write() does, the
/// files of `file` being read; kIo, FileChanged if one of these changes. Leaves no partial file.
void write_quantized(const ModelFile& file, std::span<const TensorPlan> plans,
                     const Metadata& metadata, const std::string& path, ThreadPool& pool,
                     const QuantizeOptions& options);

}  // namespace veery
