// as_folder.h: an opened model written as a folder of Hugging Face's or of MLX's form.
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
  /// f32, f16 or bf16. Absent: what the folder that is read says, else what most of its weights
  /// are; bf16 for weights that are all quantised.
  std::optional<DType> dtype;
  uint64_t shard_bytes = 5'000'000'000;
  std::optional<MlxOptions> quantize;  ///< of kMlx
  /// Told after each piece: bytes written, bytes in all, the tensor.
  std::function<void(size_t, size_t, const std::string&)> progress;
};

/// What a folder will hold.
struct FolderPlan {
  const FolderType* type = nullptr;
  DType dtype = DType::kF32;
  FolderTensors tensors;
  MlxPlan mlx;  ///< a format for each tensor; all absent where nothing is quantised
  Json config;
};

/// Throws kUnsupported for what folders of the model's type cannot say, kInput.
FolderPlan plan_folder(const ModelFile& file, const FolderOptions& options);

/// Bytes of a tensor in the folder, scales and biases included.
size_t planned_bytes(const FolderPlan& plan, size_t tensor);

/// Writes weights, config.json and what belongs to text: the files of the folder that is read, else
/// what the metadata of GGUF says. A slice of rows is in memory at a time, rows are spread over
/// `pool`. Throws kInput if `path` exists or a value does not fit the type, naming the tensor; kIo.
/// Leaves no partial folder.
void write_folder(const ModelFile& file, const FolderPlan& plan, const std::string& path,
                  ThreadPool& pool, const FolderOptions& options);

}  // namespace veery
