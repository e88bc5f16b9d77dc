// config.h: the hyperparameters of a model, independent of the file format.
#pragma once
#include <array>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "file/model_file.h"
#include "graph/ops/attention.h"
#include "graph/ops/experts.h"
#include "graph/ops/position.h"
#include "graph/ops/recurrence.h"

namespace veery {

/// kPlainLayer: layer norm without weights.
enum class Norm : uint8_t { kRms, kLayer, kPlainLayer };
/// QK norm. kShared: per head, one weight for all heads. kOwn: per head, a weight for each head.
/// kTogether: over all heads at once. kUnweighted: per head without a weight, only in layers with
/// RoPE.
enum class HeadNorm : uint8_t { kShared, kOwn, kTogether, kUnweighted };

/// Learned parameters of the xIELU activation of a layer as stored in files. ActivateAttr takes
/// softplus(alpha_p) and beta + softplus(alpha_n).
struct XieluNumbers {
  float alpha_p = 0, alpha_n = 0, beta = 0.5F, eps = -1e-6F;
  bool operator==(const XieluNumbers&) const = default;
};
/// The storage of a parameter: in GGUF a key with one value per layer, in model folders one tensor
/// per layer, given by its internal name.
struct XieluField {
  const char* gguf_key;
  const char* tensor;
  float XieluNumbers::*member;
};
inline constexpr XieluField kXieluFields[] = {
    {"xielu.alpha_p", "xielu_alpha_p.weight", &XieluNumbers::alpha_p},
    {"xielu.alpha_n", "xielu_alpha_n.weight", &XieluNumbers::alpha_n},
    {"xielu.beta", "xielu_beta.weight", &XieluNumbers::beta},
    {"xielu.eps", "xielu_eps.weight", &XieluNumbers::eps}};

/// Position encoding: RoPE, a table added to the embedding, ALiBi biases on attention scores, or
/// none.
enum class Positions : uint8_t { kRope, kTable, kAlibi, kNone };

/// Mixture-of-experts feed-forward layers.
struct ExpertConfig {
  int32_t count = 0;          ///< number of routed experts; 0: none
  int64_t hidden = 0;         ///< width of one routed expert
  int64_t latent = 0;         ///< input width of experts (LatentMoE); 0: dim
  int64_t shared_hidden = 0;  ///< width of the shared expert; 0: none
  float scale = 1;            ///< factor on the sum of shared and routed experts
  RouteAttr route;
  MoeAttr moe;
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

/// Recurrent layers: gated DeltaNet (Yang et al., arXiv:2412.06464), Mamba (Gu and Dao,
/// arXiv:2312.00752), Mamba-2 (Dao and Gu, arXiv:2405.21060), gated short convolution (Liquid AI's
/// LFM2, arXiv:2511.23404), mLSTM (Beck et al., arXiv:2405.04517, as in arXiv:2503.13427), Kimi
/// Delta Attention (Kimi Team, arXiv:2510.26692), RWKV-7 (Peng et al., arXiv:2503.14456), xLSTM
/// with blocks of mLSTM and sLSTM (arXiv:2405.04517).
enum class Mixer : uint8_t {
  kNone,
  kDelta,
  kMamba1,
  kMamba2,
  kShortConv,
  kMlstm,
  kKda,
  kRwkv7,
  kXlstmBlocks
};

/// Returns the name for messages: "Mamba-2", or "none".
const char* name(Mixer mixer);

/// xLSTM models with mLSTM blocks (after a convolution), sLSTM blocks, or both.
struct XlstmSizes {
  int32_t cell_heads = 0;       ///< heads of sLSTM; 0: no sLSTM blocks
  int32_t cell_conv_width = 0;  ///< of sLSTM; 0: no convolution
  int32_t part = 0;             ///< block size of the q, k and v projections of mLSTM
  std::vector<bool> cells;      ///< by layer: is an sLSTM block
  bool operator==(const XlstmSizes&) const = default;
};

/// Ranks of RWKV-7's low-rank projections: decay (w), in-context learning rate (a), value residual
/// (v) and gate (g).
struct Rwkv7Ranks {
  int32_t decay = 0, step = 0, value = 0, gate = 0;
  bool operator==(const Rwkv7Ranks&) const = default;
};

/// Layers with a recurrent state of fixed size instead of a KV cache.
struct RecurrentConfig {
  Mixer mixer = Mixer::kNone;
  std::vector<bool> layers;              ///< by layer: is recurrent; empty: all layers
  int32_t heads = 0, key_heads = 0;      ///< number of value heads and key heads
  int32_t key_size = 0, value_size = 0;  ///< per head
  int32_t conv_width = 0;
  HeadMap map = HeadMap::kGrouped;
  int32_t rank = 0;           ///< kMamba1: rank of the step projection (dt_rank)
  Rwkv7Ranks ranks;           ///< kRwkv7
  XlstmSizes blocks;          ///< kXlstmBlocks
  int32_t groups = 1;         ///< kMamba2: groups of the gated norm
  bool norm_first = false;    ///< kMamba2: normalises before the gate
  float gate_softcap = 0;     ///< kMlstm: soft cap of input and forget gates; 0: none
  float divisor_eps = 1e-6F;  ///< kMlstm: added to the denominator
  /// kMamba2: limits of the step (time_step_limit).
  float least_step = 0, most_step = std::numeric_limits<float>::infinity();

  int64_t keys() const { return int64_t{key_heads} * key_size; }
  int64_t values() const { return int64_t{heads} * value_size; }
};

/// muP multipliers on inputs and outputs of the parts of a layer (Falcon-H1, arXiv:2507.22448).
struct Multipliers {
  float attention_in = 1, attention_out = 1, keys = 1;
  float recurrent_in = 1, recurrent_out = 1, recurrent_gate = 1;
  float gate = 1, down = 1;  ///< of the feed-forward layer
  /// Multipliers of the values, keys, queries and steps of the recurrence; its weights already
  /// include them.
  std::array<float, 4> channels = {1, 1, 1, 1};
  bool operator==(const Multipliers&) const = default;
};

/// Audio encoder whose output the decoder attends to by cross-attention. It has the decoder's width
/// (Radford et al., arXiv:2212.04356).
struct SourceConfig {
  int32_t layers = 0, heads = 0;  ///< 0: no encoder
  int64_t hidden = 0;
  int32_t positions = 0;  ///< output positions; each covers two spectrogram frames
  int64_t bands = 0;      ///< mel bands per frame
};

/// Hyperparameters of a decoder or encoder. Sizes are in elements; `hidden` is the width of the
/// feed-forward layer.
struct TransformerConfig {
  std::string architecture;
  int64_t vocab = 0, dim = 0, hidden = 0;
  int32_t layers = 0, heads = 0, kv_heads = 0, head_dim = 0;
  int32_t further_layers = 0;  ///< multi-token prediction (MTP) layers, after the others
  int32_t context = 0;         ///< trained context length in positions
  float norm_eps = 1e-5F;
  AnglesAttr rope;             ///< of layers with global attention
  AnglesAttr local_rope;       ///< of layers with a sliding window
  std::vector<double> thetas;  ///< RoPE bases by layer, if they differ; 0: no RoPE
  /// Sizes of layers with a sliding window if they differ; 0: as in other layers.
  int32_t local_head_dim = 0, local_kv_heads = 0;
  /// Layers with global attention have no value projection: values are the keys before norm and
  /// RoPE.
  bool values_are_keys = false;
  /// Number of last layers that share keys and values: they attend to the cache of the last earlier
  /// layer of the same kind (sliding window or global). `shared_kv_hidden` is the width of their
  /// feed-forward layers; 0: as in other layers.
  int32_t shared_kv_layers = 0;
  int64_t shared_kv_hidden = 0;
  /// Per-layer embeddings (Gemma): width per layer, 0: none; rows of their table, 0: no table.
  int64_t layer_input = 0, layer_input_rows = 0;
  /// RoPE pairs adjacent elements. Depends on the architecture and the container.
  bool rope_interleaved = false;
  /// kCausal: a decoder. kFull: an encoder, whose local layers see `window` positions on each side.
  Mask mask = Mask::kCausal;
  int64_t projected = 0;    ///< output width of an encoder's final projection; 0: none
  int32_t token_types = 0;  ///< rows of the token type table; 0: no table
  int32_t window = 0;       ///< positions visible in a local layer; 0: no local layers
  std::vector<bool> local;  ///< by layer: has the sliding window; empty: none
  bool chunked = false;     ///< local layers see the current chunk of `window`
  /// By layer: consists only of a feed-forward part, and other layers only of a mixer. Empty: all
  /// layers have both parts.
  std::vector<bool> only_feeds;
  Multipliers multipliers;
  ExpertConfig experts;
  LatentConfig latent;
  IndexConfig index;
  RecurrentConfig recurrent;
  SourceConfig source;
  bool tied = false;  ///< the output head shares the embedding's weights
  float embedding_scale = 1, residual_scale = 1, logit_scale = 1;
  float attention_scale = 0;    ///< factor on q k^T
  float attention_softcap = 0;  ///< 0: none
  float logit_softcap = 0;      ///< 0: none
  Activation activation = Activation::kSilu;
  std::vector<XieluNumbers> xielu;  ///< kXielu: by layer
  bool gated = true;                ///< gated feed-forward layer, such as SwiGLU
  Norm norm = Norm::kRms;
  HeadNorm head_norm = HeadNorm::kShared;
  bool head_norm_after_rope = false;  ///< QK norm after RoPE instead of before
  bool gated_heads = false;           ///< the attention output gate is one number per head
  bool parallel = false;  ///< attention and feed-forward part both read the layer's input
  Positions positions = Positions::kRope;
  float alibi = 0;              ///< AttendAttr::alibi
  std::vector<bool> unrotated;  ///< by layer: no RoPE (NoPE); empty: all layers have RoPE
  /// Temperature of queries in NoPE layers: 1 + unrotated_temperature * ln(1 + floor((p + 1) /
  /// unrotated_period)) at position p; period 0: none.
  double unrotated_temperature = 0;
  int32_t unrotated_period = 0;
  /// Sequences may exceed the original context, so that queries at later positions have a
  /// temperature.
  bool long_context = false;
  /// Sequences may exceed IndexConfig::used positions, so that attention is sparse.
  bool sparse = false;

  /// Returns whether sequences of `length` positions need sparse attention.
  bool is_sparse_at(int32_t length) const { return index.used > 0 && length > index.used; }
  ActivateAttr activation_of(int32_t layer) const;
  int32_t head_dim_of(int32_t layer) const {
    return is_local(layer) && local_head_dim > 0 ? local_head_dim : head_dim;
  }
  int32_t kv_heads_of(int32_t layer) const {
    return is_local(layer) && local_kv_heads > 0 ? local_kv_heads : kv_heads;
  }
  /// Whether the layer uses the keys and values of an earlier layer.
  bool shares_kv(int32_t layer) const { return layer >= layers - shared_kv_layers; }
  int64_t hidden_of(int32_t layer) const {
    return shares_kv(layer) && shared_kv_hidden > 0 ? shared_kv_hidden : hidden;
  }
  /// Returns the layer whose keys and values `layer` attends to, or -1 if there is none.
  int32_t keys_of(int32_t layer) const;
  bool is_local(int32_t layer) const {
    return window > 0 && !local.empty() && local[static_cast<size_t>(layer)];
  }
  bool is_recurrent(int32_t layer) const {
    return recurrent.mixer != Mixer::kNone &&
           (recurrent.layers.empty() || recurrent.layers[static_cast<size_t>(layer)]);
  }
  bool mixes(int32_t layer) const {
    return only_feeds.empty() || !only_feeds[static_cast<size_t>(layer)];
  }
  bool feeds(int32_t layer) const { return only_feeds.empty() || !mixes(layer); }
  bool is_rotated(int32_t layer) const {
    return rope.dims > 0 && (unrotated.empty() || !unrotated[static_cast<size_t>(layer)]);
  }
};

/// Limit of sizes in files, far above those of real models, so that products fit in 64 bits.
inline constexpr int64_t kMaxSize = 1 << 24;

/// The names of the expert hyperparameters in a file, for messages.
struct ExpertKeys {
  std::string where, used, groups, groups_used;
};
/// Throws kFormat, naming the key, if the expert hyperparameters are inconsistent.
void check_experts(const ExpertConfig& experts, const ExpertKeys& keys);

/// Throws kFormat, naming `where` and the layer, if a layer that shares keys and values has no
/// earlier layer to share with.
void check_shared_kv(const TransformerConfig& c, const std::string& where);

/// Throws kFormat, naming `where`, if the first layer has no indexer or the RoPE part is larger
/// than an indexer head (`turned`: name of that size in the file).
void check_index(const TransformerConfig& c, const std::string& where, const std::string& turned);

/// Throws kFormat or kUnsupported, naming `where`, if the hyperparameters of an audio encoder and
/// its decoder are inconsistent or too large.
void check_source(const TransformerConfig& c, const std::string& where);

/// Sets layer_input_rows. Throws kFormat if the table of `file` has fewer rows than tokens.
void find_layer_input_rows(const ModelFile& file, TransformerConfig& c);

/// Sets c.recurrent.ranks from the matrices of `file`. Throws kFormat naming a tensor that is
/// missing or not a matrix.
void find_rwkv7_ranks(const ModelFile& file, TransformerConfig& c);

/// Sets c.recurrent and c.hidden of a kXlstmBlocks model from the tensors of `file`. Throws kFormat
/// naming a tensor with an invalid shape.
void find_xlstm_sizes(const ModelFile& file, TransformerConfig& c);

/// Returns YaRN's factor on cos and sin (Peng et al., arXiv:2309.00071).
double yarn_magnitude(double factor, double weight);

/// Returns by layer whether it is local: every `period`-th layer is global; period 0: all are
/// local.
std::vector<bool> local_pattern(int32_t layers, int32_t period);

}  // namespace veery
