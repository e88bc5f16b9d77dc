// quantize.h: converts the tensors of a model to other types and writes them as GGUF.
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

/// Returns the metadata of the output: that of `file` with general.file_type and the source of the
/// importances, without the keys of a split file.
Metadata quantized_metadata(const ModelFile& file, const QuantMix& mix,
                            const ImportanceMatrix* importance, const std::string& importance_file);

/// Returns the size of a tensor after conversion.
size_t planned_bytes(const TensorView& tensor, const TensorPlan& plan);

/// Returns the metadata of an output without a mix: general.file_type is unchanged, or that of the
/// majority of elements if it was unset.
Metadata retyped_metadata(const ModelFile& file, std::span<const TensorPlan> plans);

struct QuantizeOptions {
  /// Importances; tensors that it does not cover are estimated from the weights, if possible.
  const ImportanceMatrix* importance = nullptr;
  bool requantize = false;   ///< permit changing the type of quantised tensors
  uint64_t split_bytes = 0;  ///< maximum data per file in bytes; 0: one file
  /// Treatment of existing files with the names of the output.
  Existing existing = Existing::kReplace;
  /// Receives the names of replaced files; may be nullptr.
  std::vector<std::string>* replaced = nullptr;
  /// Called after each piece with bytes written, total bytes, and the tensor name.
  std::function<void(size_t, size_t, const std::string&)> progress;
};

/// Writes `file` to `path`, converting each tensor according to its plan, one slice of rows at a
/// time, distributed over `pool`. Throws kInput naming tensor and element if a value cannot be
/// encoded, importances do not match a tensor, or a tensor is already quantised. Throws as
/// file_to_write() does, with the files of `file` as inputs; kIo; FileChanged if an input changes.
/// Removes partial output on failure.
void write_quantized(const ModelFile& file, std::span<const TensorPlan> plans,
                     const Metadata& metadata, const std::string& path, ThreadPool& pool,
                     const QuantizeOptions& options);

}  // namespace veery
