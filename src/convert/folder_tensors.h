// folder_tensors.h: converts the tensors of an opened model to those of a folder.
#pragma once
#include <string>
#include <vector>

#include "import/names/folder_names.h"
#include "model/config.h"

namespace veery {

/// A tensor of a folder and the source of its values, which has the type in the opened model.
struct FolderTensor {
  TensorView view;
  /// Rows that must be read at once: all rows of a matrix for transposed tensors.
  int64_t together = 1;
};

struct FolderTensors {
  std::vector<FolderTensor> tensors;
  /// Names of tensors of other parts (vision) that are not written.
  std::vector<std::string> left_out;
};

/// Returns the folder type of a model: that of the source folder, or for GGUF the first one that
/// can represent the configuration. Throws kUnsupported if there is none.
const FolderType& folder_type_of(const ModelFile& file, const TransformerConfig& c);

/// Reverts open_model(): names of `type`, split RoPE pairs in queries and keys, norms without the
/// 1, projections joint or transposed and experts separate as in such folders, no output head that
/// equals the embedding. Throws kUnsupported naming a tensor of a GGUF file that such folders
/// cannot contain.
FolderTensors folder_tensors(const ModelFile& file, const TransformerConfig& c,
                             const FolderType& type, FolderKind kind);

}  // namespace veery
