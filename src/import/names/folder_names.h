// folder_names.h: maps tensor names of folders to GGUF names and back.
#pragma once
#include <array>
#include <cstdint>
#include <string>
#include <string_view>

#include "import/folder/folder_types.h"

namespace veery {

/// The naming conventions that a folder follows.
enum class FolderKind : uint8_t { kHuggingFace, kMlx };

/// Returns the GGUF name of a folder's tensor; empty if there is none.
std::string our_name(std::string_view architecture, std::string_view name);

/// Returns the name of a tensor in folders of `type`: "blk.0.attn_q.weight" is
/// "model.layers.0.self_attn.q_proj.weight". A single expert is "blk.0.ffn_gate.3.weight", all
/// experts of a layer are "blk.0.ffn_gate_exps.weight". Empty if such folders have no such tensor.
std::string folder_name(const FolderType& type, FolderKind kind, std::string_view ours);

/// Returns the layer number in the name of a folder's tensor; 0 if it is not a valid number, -1 if
/// the tensor does not belong to a layer.
int64_t named_layer(std::string_view name);

/// Returns whether a name denotes something other than a weight: a buffer, or scales of another
/// tensor.
bool is_auxiliary_tensor(std::string_view name);

/// How Hugging Face folders store the experts of a layer.
enum class ExpertForm : uint8_t {
  kApart,        ///< one tensor per expert
  kAlternating,  ///< one tensor for all, (experts, in, out), rows of gate and up alternating
  kTransposed,   ///< one tensor for all, (experts, in, out), gate before up
  kLinear,       ///< one tensor for all, (experts, out, in), gate before up
  kJoint,        ///< as kLinear, with the names of kAlternating
};

/// Names of the expert tensors in folders of a type.
struct MixtureNames {
  std::string_view type;
  std::string_view prefix, router;
  std::array<std::string_view, 3> experts;  ///< gate, up and down of one expert
  ExpertForm form;
  std::string_view shared;     ///< the shared expert
  std::string_view mlx_stack;  ///< MLX's name for all experts of a layer
  /// The bias that is added to scores for expert selection.
  std::string_view bias = "gate.e_score_correction_bias";
  std::string_view mlx_bias = bias;
  std::string_view mlx_router = router;
};
/// Returns the row of `type`; nullptr if its layers are not mixtures.
const MixtureNames* mixture_names(const FolderType& type);

}  // namespace veery
