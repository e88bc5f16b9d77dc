// folder_tensors.h: the tensors of an opened model in the form that folders hold.
#pragma once
#include <string>
#include <vector>

#include "import/names/folder_names.h"
#include "model/config.h"

namespace veery {

/// A tensor of a folder, with what its values come from; its type is that of the opened model.
struct FolderTensor {
  TensorView view;
  int64_t together = 1;  ///< rows that are read at once: of transposed tensors all of a matrix
};

struct FolderTensors {
  std::vector<FolderTensor> tensors;
  std::vector<std::string> left_out;  ///< names of the tensors of other parts (vision)
};

/// The type of folder that holds a model of this configuration: that of the folder it came from, or
/// for GGUF the first that has what it needs. Throws kUnsupported if there is none.
const FolderType& folder_type_of(const ModelFile& file, const TransformerConfig& c);

/// The opposite of open_model: names of `type`, queries and keys with the halves of a head as pairs
/// of RoPE, norms without the 1, projections joint, transposed and experts apart where such folders
/// have them so; no head that is the embedding. Throws kUnsupported naming a tensor of a GGUF file
/// that such folders have no place for.
FolderTensors folder_tensors(const ModelFile& file, const TransformerConfig& c,
                             const FolderType& type, FolderKind kind);

}  // namespace veery
