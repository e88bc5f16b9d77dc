// folder_types.h: the model types in config.json of transformers, with their defaults.
#pragma once
#include <span>
#include <string_view>

namespace veery {

/// Selects the layers with a sliding window if config.json has no layer_types.
enum class WindowRule : uint8_t {
  kNone,       ///< none, regardless of the file
  kAll,        ///< all layers
  kPattern,    ///< all except every sliding_window_pattern-th
  kFrom,       ///< layers from max_window_layers on, if use_sliding_window
  kUnrotated,  ///< layers without RoPE, if use_sliding_window
  kChunked,    ///< layers with RoPE, which attend within chunks of attention_chunk_size
  kLeading,    ///< all except the first of every global_attn_every_n_layers
};

/// RoPE parameters of layers with a window.
enum class LocalRope : uint8_t {
  kShared,  ///< same as the other layers
  kOwn,     ///< separate; older files state the base as rope_local_base_freq
  kUsual,   ///< separate; older files cannot state them, so defaults apply
};

/// A model type: model_type and class in transformers, our architecture name, and transformers'
/// defaults as JSON.
struct FolderType {
  std::string_view type, class_name, architecture;
  WindowRule window;
  const char* defaults;
  LocalRope local_rope = LocalRope::kShared;
};

std::span<const FolderType> folder_types();

/// Return the row with this name, or nullptr.
const FolderType* find_folder_type(std::string_view type);
const FolderType* find_folder_class(std::string_view class_name);

}  // namespace veery
