// attention.h: hyperparameters of attention, of MLA and of sparse attention.
#pragma once
#include <cstdint>
#include <vector>

#include "graph/ops/attention.h"

namespace veery {

/// Self-attention with a KV cache. Vectors have one entry per layer.
struct AttentionConfig {
  int32_t heads = 0, kv_heads = 0, head_dim = 0;
  float scale = 0;    ///< factor on q k^T
  float softcap = 0;  ///< soft cap of scores; 0: none
  /// kCausal: a decoder. kFull: an encoder, whose local layers see `window` positions on each side.
  Mask mask = Mask::kCausal;
  bool gated_heads = false;  ///< the output gate is one number per head

  int32_t window = 0;       ///< positions visible in a local layer; 0: no local layers
  std::vector<bool> local;  ///< has the sliding window; empty: none
  bool chunked = false;     ///< local layers see the current chunk of `window`
  /// Sizes of local layers if they differ; 0: as in other layers.
  int32_t local_head_dim = 0, local_kv_heads = 0;

  /// Layers with global attention have no value projection: values are the keys before norm and
  /// RoPE.
  bool values_are_keys = false;
  /// Number of last layers that share keys and values: they attend to the cache of the last earlier
  /// layer of the same kind (sliding window or global).
  int32_t shared_kv_layers = 0;
};

/// Multi-head latent attention (MLA), with keys and values compressed to one vector (DeepSeek-AI,
/// arXiv:2405.04434).
struct LatentConfig {
  int32_t rank = 0;        ///< kv_lora_rank; 0: no MLA
  int32_t query_rank = 0;  ///< q_lora_rank; 0: queries are not compressed
  /// Per head: qk_nope_head_dim, qk_rope_head_dim, v_head_dim.
  int32_t plain = 0, turned = 0, value = 0;
  float norm_eps = 1e-6F;     ///< of the norms of compressed vectors
  double yarn_magnitude = 1;  ///< YaRN magnitude of queries and of keys
};

/// Sparse attention: the lightning indexer, which selects the positions that each token attends to
/// (DeepSeek-AI, DeepSeek-V3.2-Exp, 2025).
struct IndexConfig {
  int32_t used = 0;  ///< number of selected positions; 0: dense attention
  int32_t heads = 0, head_dim = 0;
  bool interleaved = false;  ///< RoPE pairs adjacent elements
  /// By layer: has an indexer. Other layers use the selection of the last layer before them that
  /// has one.
  std::vector<bool> layers;
  bool operator==(const IndexConfig&) const = default;
};

}  // namespace veery
