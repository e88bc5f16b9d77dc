// config.h: the numbers that describe a decoder, whatever container they came from.
#pragma once
#include <cstdint>
#include <string>

#include "file/model_file.h"
#include "graph/attr.h"

namespace veery {

/// A decoder-only transformer. Sizes are in elements, `hidden` is the width of the feed-forward
/// part.
struct DecoderConfig {
  std::string architecture;
  int64_t vocab = 0, dim = 0, hidden = 0;
  int32_t layers = 0, heads = 0, kv_heads = 0, head_dim = 0;
  int32_t context = 0;  ///< the positions that the model was trained for
  float norm_eps = 1e-5F;
  AnglesAttr rope;        ///< of layers that see everything
  AnglesAttr local_rope;  ///< of layers with a window
  bool rope_interleaved =
      false;                  ///< which elements form a pair: depends on architecture and container
  int32_t window = 0;         ///< positions that a local layer sees; 0: there are no local layers
  int32_t window_period = 0;  ///< every window_period-th layer sees everything
  bool tied = false;          ///< the output head is the embedding
  float embedding_scale = 1;
  float attention_scale = 0;  ///< of q k^T
  Activation activation = Activation::kSilu;

  bool is_local(int32_t layer) const { return window > 0 && (layer + 1) % window_period != 0; }
};

/// From the metadata and tensors of a GGUF file. Throws kUnsupported naming an unknown
/// architecture, kFormat naming a key that is missing or out of range.
DecoderConfig read_config(const ModelFile& file);

}  // namespace veery
