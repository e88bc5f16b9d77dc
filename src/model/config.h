// config.h: the numbers that describe a stack of transformer layers, whatever container they came
// from.
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

/// kPlainLayer: without weights.
enum class Norm : uint8_t { kRms, kLayer, kPlainLayer };
/// Norms of queries and keys: of each head, with one weight for all or a weight of its own; of all
/// heads together; of each head without a weight, in layers with RoPE.
enum class HeadNorm : uint8_t { kShared, kOwn, kTogether, kUnweighted };

/// What a layer has learned of its activation, as files have it: the factors of ActivateAttr are
/// softplus(alpha_p) and beta + softplus(alpha_n).
struct XieluNumbers {
  float alpha_p = 0, alpha_n = 0, beta = 0.5F, eps = -1e-6F;
  bool operator==(const XieluNumbers&) const = default;
};
/// Where they stand: a key of GGUF with a list over the layers, a tensor of each layer of a folder,
/// by our name.
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

/// Where positions are said: by RoPE, by rows of a table that are added to the embedding, by what
/// ALiBi takes from scores, nowhere.
enum class Positions : uint8_t { kRope, kTable, kAlibi, kNone };

/// Feed-forward layers that are mixtures of experts.
struct ExpertConfig {
  int32_t count = 0;          ///< 0: there are none
  int64_t hidden = 0;         ///< of one expert
  int64_t latent = 0;         ///< of what experts are given in place of a row; 0: the row
  int64_t shared_hidden = 0;  ///< of the one that every row has; 0: there is none
  float scale = 1;            ///< of what the chosen ones and the shared one give together
  RouteAttr route;
  MoeAttr moe;
};

/// Attention whose keys and values are made of one compressed vector (DeepSeek-AI,
/// arXiv:2405.04434).
struct LatentConfig {
  int32_t rank = 0;        ///< of the vector; 0: keys and values are plain
  int32_t query_rank = 0;  ///< 0: queries are not compressed
  /// Of a head: what RoPE leaves, what it turns, a value.
  int32_t plain = 0, turned = 0, value = 0;
  float norm_eps = 1e-6F;     ///< of the norms of compressed vectors
  double yarn_magnitude = 1;  ///< of queries and of keys, as a whole
};

/// Sparse attention: what chooses the positions that a row attends to, where it sees more (the
/// lightning indexer of DeepSeek-AI, DeepSeek-V3.2-Exp, 2025).
struct IndexConfig {
  int32_t used = 0;  ///< positions that are chosen; 0: attention looks at all
  int32_t heads = 0, head_dim = 0;
  bool interleaved = false;  ///< which elements RoPE pairs
  /// Of each layer: chooses; the others attend to what the last one before them chose.
  std::vector<bool> layers;
  bool operator==(const IndexConfig&) const = default;
};

/// What recurrent layers are: gated DeltaNet (Yang et al., arXiv:2412.06464), Mamba (Gu and Dao,
/// arXiv:2312.00752), Mamba-2 (Dao and Gu, arXiv:2405.21060), a gated convolution of few positions
/// (Liquid AI's LFM2, arXiv:2511.23404), mLSTM (Beck et al., arXiv:2405.04517, as in
/// arXiv:2503.13427), Kimi Delta Attention (Kimi Team, arXiv:2510.26692), RWKV-7 (Peng et al.,
/// arXiv:2503.14456), xLSTM with blocks of mLSTM and sLSTM (arXiv:2405.04517).
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

/// "Mamba-2"; "none".
const char* name(Mixer mixer);

/// xLSTM with blocks of mLSTM behind a convolution, of sLSTM, or of both.
struct BlockSizes {
  int32_t cell_heads = 0;       ///< of sLSTM; 0: there is none
  int32_t cell_conv_width = 0;  ///< 0: there is no convolution
  int32_t part = 0;             ///< columns that a projection of mLSTM takes together
  std::vector<bool> cells;      ///< of each layer: is sLSTM
  bool operator==(const BlockSizes&) const = default;
};

/// Columns by way of which RWKV-7 makes decays, steps, the part of the first values, and gates.
struct MixRanks {
  int32_t decay = 0, step = 0, value = 0, gate = 0;
  bool operator==(const MixRanks&) const = default;
};

/// Layers that keep a state of a fixed size in place of keys and values.
struct RecurrentConfig {
  Mixer mixer = Mixer::kNone;
  std::vector<bool> layers;              ///< of each layer: is recurrent; empty: all
  int32_t heads = 0, key_heads = 0;      ///< of values, of keys
  int32_t key_size = 0, value_size = 0;  ///< of a head
  int32_t conv_width = 0;
  HeadMap map = HeadMap::kGrouped;
  int32_t rank = 0;           ///< kMamba1: columns that the steps are made of
  MixRanks ranks;             ///< kRwkv7
  BlockSizes blocks;          ///< kXlstmBlocks
  int32_t groups = 1;         ///< kMamba2: parts of a row that are normalised alone
  bool norm_first = false;    ///< kMamba2: the norm stands before the gate
  float gate_softcap = 0;     ///< kMlstm: of input and forget gates; 0: none
  float divisor_eps = 1e-6F;  ///< kMlstm: added to what results are divided by
  /// kMamba2: bounds of the step.
  float least_step = 0, most_step = std::numeric_limits<float>::infinity();

  int64_t keys() const { return int64_t{key_heads} * key_size; }
  int64_t values() const { return int64_t{heads} * value_size; }
};

/// Factors on what parts of a layer are given and give (Falcon-H1, arXiv:2507.22448).
struct Multipliers {
  float attention_in = 1, attention_out = 1, keys = 1;
  float recurrent_in = 1, recurrent_out = 1, recurrent_gate = 1;
  float gate = 1, down = 1;  ///< of the feed-forward part
  /// Of values, keys, queries and steps of the recurrence: in its weights already.
  std::array<float, 4> channels = {1, 1, 1, 1};
  bool operator==(const Multipliers&) const = default;
};

/// An encoder of sound that a decoder of the same width attends to (Radford et al.,
/// arXiv:2212.04356).
struct SourceConfig {
  int32_t layers = 0, heads = 0;  ///< 0: there is none
  int64_t hidden = 0;
  int32_t positions = 0;  ///< that it gives, each of two frames of a spectrogram
  int64_t bands = 0;      ///< of a frame
};

/// A decoder or an encoder. Sizes are in elements, `hidden` is the width of the feed-forward part.
struct TransformerConfig {
  std::string architecture;
  int64_t vocab = 0, dim = 0, hidden = 0;
  int32_t layers = 0, heads = 0, kv_heads = 0, head_dim = 0;
  int32_t further_layers = 0;  ///< behind the others, for predicting further tokens (draft_entry())
  int32_t context = 0;         ///< the positions that the model was trained for
  float norm_eps = 1e-5F;
  AnglesAttr rope;             ///< of layers that see everything
  AnglesAttr local_rope;       ///< of layers with a window
  std::vector<double> thetas;  ///< bases of RoPE by layer, where that is not enough; 0: none
  /// Of layers with a window, where they differ from those of the others; 0: they do not.
  int32_t local_head_dim = 0, local_kv_heads = 0;
  /// Layers that see everything project no values: they are the keys before norm and RoPE.
  bool values_are_keys = false;
  /// The last layers, which attend to the keys and values of the last layer before them that has
  /// the same window, and the width of their feed-forward parts; 0: that of the others.
  int32_t shared_kv_layers = 0;
  int64_t shared_kv_hidden = 0;
  /// Columns of the input that each layer has of a token, 0: none; rows of the table for it, 0:
  /// there is none.
  int64_t layer_input = 0, layer_input_rows = 0;
  /// Which elements form a pair: depends on architecture and container.
  bool rope_interleaved = false;
  /// kCausal: a decoder; kFull: an encoder, whose local layers see `window` positions to each side.
  Mask mask = Mask::kCausal;
  int64_t projected = 0;  ///< columns of an encoder's rows behind a last projection; 0: it has none
  int32_t token_types = 0;  ///< rows of the table of token types; 0: there is none
  int32_t window = 0;       ///< positions that a local layer sees; 0: there are no local layers
  std::vector<bool> local;  ///< of each layer: has the window; empty: none
  bool chunked = false;     ///< local layers see what is since the last multiple of the window
  /// Layers are one part each: of each, whether it is a feed-forward part; empty: layers have a
  /// mixer and a feed-forward part.
  std::vector<bool> only_feeds;
  Multipliers multipliers;
  ExpertConfig experts;
  LatentConfig latent;
  IndexConfig index;
  RecurrentConfig recurrent;
  SourceConfig source;
  bool tied = false;  ///< the output head is the embedding
  float embedding_scale = 1, residual_scale = 1, logit_scale = 1;
  float attention_scale = 0;    ///< of q k^T
  float attention_softcap = 0;  ///< 0: none
  float logit_softcap = 0;      ///< 0: none
  Activation activation = Activation::kSilu;
  std::vector<XieluNumbers> xielu;  ///< kXielu: of each layer
  bool gated = true;                ///< the feed-forward part multiplies two projections
  Norm norm = Norm::kRms;
  HeadNorm head_norm = HeadNorm::kShared;
  bool head_norm_last = false;  ///< behind RoPE, not before it
  bool gated_heads = false;     ///< the gate on what attention gives is a number a head
  bool parallel = false;        ///< both parts of a layer read its input
  Positions positions = Positions::kRope;
  float alibi = 0;              ///< AttendAttr::alibi
  std::vector<bool> unrotated;  ///< of each layer: has no RoPE; empty: none
  /// Queries of layers without RoPE are multiplied by 1 + unrotated_temperature ln(1 + floor((p +
  /// 1) / unrotated_period)); period 0: they are not.
  double unrotated_temperature = 0;
  int32_t unrotated_period = 0;
  /// Sequences may become longer than the context before it was extended: positions beyond it have
  /// a temperature.
  bool long_context = false;
  /// Sequences may become longer than what attention looks at as a whole: positions are chosen.
  bool sparse = false;

  /// Whether that is so of sequences of `length` positions.
  bool is_sparse_at(int32_t length) const { return index.used > 0 && length > index.used; }
  ActivateAttr activation_of(int32_t layer) const;
  int32_t head_dim_of(int32_t layer) const {
    return is_local(layer) && local_head_dim > 0 ? local_head_dim : head_dim;
  }
  int32_t kv_heads_of(int32_t layer) const {
    return is_local(layer) && local_kv_heads > 0 ? local_kv_heads : kv_heads;
  }
  /// Whether it has no keys and values of its own.
  bool shares_kv(int32_t layer) const { return layer >= layers - shared_kv_layers; }
  int64_t hidden_of(int32_t layer) const {
    return shares_kv(layer) && shared_kv_hidden > 0 ? shared_kv_hidden : hidden;
  }
  /// The layer whose keys and values `layer` attends to; -1: there is none.
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

inline constexpr int64_t kMaxSize = 1 << 24;  ///< no dimension of a real model comes near: keeps
                                              ///< products in 64 bits

/// What a file calls the numbers of experts.
struct ExpertKeys {
  std::string where, used, groups, groups_used;
};
/// Throws kFormat, naming the key, if the numbers of experts do not fit together.
void check_experts(const ExpertConfig& experts, const ExpertKeys& keys);

/// Throws kFormat, naming `where` and the layer, if a layer that has no keys of its own finds none.
void check_shared_kv(const TransformerConfig& c, const std::string& where);

/// Throws kFormat, naming `where`, if the first layer has no positions chosen, or RoPE turns more
/// than a head (`turned`: what the file calls that part).
void check_index(const TransformerConfig& c, const std::string& where, const std::string& turned);

/// Throws kFormat or kUnsupported, naming `where`, if the numbers of an encoder of sound and of its
/// decoder do not fit together.
void check_source(const TransformerConfig& c, const std::string& where);

/// Fills in layer_input_rows. Throws kFormat if the table of `file` has a row for some tokens only.
void find_layer_input_rows(const ModelFile& file, TransformerConfig& c);

/// Fills in c.recurrent.ranks from the matrices of `file`. Throws kFormat naming one that is
/// missing or no matrix.
void find_mix_ranks(const ModelFile& file, TransformerConfig& c);

/// Fills in c.recurrent and the width of feed-forward parts of kXlstmBlocks from the tensors of
/// `file`. Throws kFormat naming one whose shape fits no such model.
void find_block_sizes(const ModelFile& file, TransformerConfig& c);

/// What yarn multiplies cos and sin by (Peng et al., arXiv:2309.00071).
double yarn_magnitude(double factor, double weight);

/// Every `period`-th of `layers` layers sees everything, the others have the window; 0: all have
/// it.
std::vector<bool> local_pattern(int32_t layers, int32_t period);

}  // namespace veery
