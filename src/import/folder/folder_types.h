// folder_types.h: the kinds of models that config.json of transformers names.
#pragma once
#include <span>
#include <string_view>

namespace veery {

/// Which layers have the sliding window where config.json has no list of layer_types.
enum class WindowRule : uint8_t {
  kNone,       ///< none, whatever the file says
  kAll,        ///< all
  kPattern,    ///< all but every sliding_window_pattern-th
  kFrom,       ///< those from max_window_layers on, if use_sliding_window
  kUnrotated,  ///< those without RoPE, if use_sliding_window
  kChunked,    ///< those with RoPE, and what they see are chunks of attention_chunk_size
  kLeading,    ///< all but the first of every global_attn_every_n_layers
};

/// RoPE of layers with a window.
enum class LocalRope : uint8_t {
  kShared,  ///< that of the others
  kOwn,     ///< parameters of its own; older files have the base as rope_local_base_freq
  kUsual,   ///< parameters of its own, which older files cannot say
};

/// model_type and class as transformers has them, our name of the architecture, and what
/// transformers takes where the file says nothing (JSON).
struct FolderType {
  std::string_view type, class_name, architecture;
  WindowRule window;
  const char* defaults;
  LocalRope local_rope = LocalRope::kShared;
};

std::span<const FolderType> folder_types();

/// nullptr if there is none.
const FolderType* find_folder_type(std::string_view type);
const FolderType* find_folder_class(std::string_view class_name);

}  // namespace veery
