// folder_names.h: what folders call the tensors that have the names of GGUF here.
#pragma once
#include <array>
#include <cstdint>
#include <string>
#include <string_view>

#include "import/folder/folder_types.h"

namespace veery {

/// Whose conventions a folder follows where they differ.
enum class FolderKind : uint8_t { kHuggingFace, kMlx };

/// The name that definitions use for a tensor of a folder; empty if there is none.
std::string our_name(std::string_view architecture, std::string_view name);

/// The name that a folder of `type` has for one of ours: "blk.0.attn_q.weight" is
/// "model.layers.0.self_attn.q_proj.weight". One expert is "blk.0.ffn_gate.3.weight", all of a
/// layer "blk.0.ffn_gate_exps.weight". Empty if such folders have no such tensor.
std::string folder_name(const FolderType& type, FolderKind kind, std::string_view ours);

/// The layer that the name of a folder's tensor says it belongs to; 0 also where that is no number,
/// -1 if it is none of a layer.
int64_t named_layer(std::string_view name);

/// Whether such a tensor is no weight: a buffer, or a scale that belongs to another tensor.
bool names_no_weight(std::string_view name);

/// What Hugging Face's folders have of the experts of a layer.
enum class ExpertForm : uint8_t {
  kApart,        ///< a tensor an expert
  kAlternating,  ///< one of all, (experts, in, out), rows of gate and up by turns
  kTransposed,   ///< one of all, (experts, in, out), gate before up
  kLinear,       ///< one of all, (experts, out, in), gate before up
  kJoint,        ///< the same under the names of kAlternating
};

/// How folders of a type hold experts.
struct MixtureNames {
  std::string_view type;
  std::string_view prefix, router;
  std::array<std::string_view, 3> experts;  ///< gate, up, down of one
  ExpertForm form;
  std::string_view shared;     ///< the expert that every row has
  std::string_view mlx_stack;  ///< what MLX calls all experts of a layer
  /// What is added to scores where experts are chosen.
  std::string_view bias = "gate.e_score_correction_bias";
  std::string_view mlx_bias = bias;
  std::string_view mlx_router = router;
};
/// nullptr if its layers are no mixtures.
const MixtureNames* mixture_names(const FolderType& type);

}  // namespace veery
