// as_folder.h: writes an opened model as a Hugging Face or MLX folder.
#pragma once
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/thread_pool.h"
#include "convert/mlx_plan.h"

namespace veery {

struct FolderOptions {
  FolderKind kind = FolderKind::kHuggingFace;
  /// f32, f16 or bf16. Default: the type stated in the source folder, otherwise that of most
  /// weights; bf16 if all weights are quantised.
  std::optional<DType> dtype;
  uint64_t shard_bytes = 5'000'000'000;
  std::optional<MlxOptions> quantize;  ///< for kMlx only
  /// Called after each piece with bytes written, total bytes, and the tensor name.
  std::function<void(size_t, size_t, const std::string&)> progress;
};

/// The contents of a folder to be written.
struct FolderPlan {
  const FolderType* type = nullptr;
  DType dtype = DType::kF32;
  FolderTensors tensors;
  MlxPlan mlx;  ///< one format per tensor; all nullopt if nothing is quantised
  Json config;
};

/// Chooses types, names and settings of the folder. Throws kUnsupported naming what folders of the
/// model's type cannot represent, kInput for invalid options.
FolderPlan plan_folder(const ModelFile& file, const FolderOptions& options);

/// Returns the bytes of a tensor in the folder, including scales and biases.
size_t planned_bytes(const FolderPlan& plan, size_t tensor);

/// Writes weights, config.json and text files (copied from a source folder, or made from GGUF
/// metadata). Only a slice of rows is in memory at a time; rows are distributed over `pool`. Throws
/// kInput if `path` exists or a value does not fit the type, naming the tensor; kIo. Removes
/// partial output on failure.
void write_folder(const ModelFile& file, const FolderPlan& plan, const std::string& path,
                  ThreadPool& pool, const FolderOptions& options);

}  // namespace veery
