// config.h: the hyperparameters of a model, independent of the file format.
#pragma once
#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "file/model_file.h"
#include "model/config/attention.h"
#include "model/config/feed_forward.h"
#include "model/config/norms.h"
#include "model/config/positions.h"
#include "model/config/recurrent.h"

namespace veery {

/// The input of the first layer, except for tables of positions.
struct InputConfig {
  float scale = 1;          ///< factor on the token embedding
  int32_t token_types = 0;  ///< rows of the token type table; 0: no table
  /// Per-layer embeddings (Gemma): width per layer, 0: none; rows of their table, 0: no table.
  int64_t layer_input = 0, layer_input_rows = 0;
};

/// How the parts of a layer are added to its input.
struct ResidualConfig {
  float scale = 1;        ///< factor on the output of each part
  bool parallel = false;  ///< attention and feed-forward part both read the layer's input
};

/// The output head of a decoder, or the final projection of an encoder.
struct OutputConfig {
  bool tied = false;      ///< the head shares the embedding's weights
  float scale = 1;        ///< factor on logits
  float softcap = 0;      ///< soft cap of logits; 0: none
  int64_t projected = 0;  ///< width of an encoder's final projection; 0: none
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

/// Hyperparameters of a decoder or encoder, grouped by part. Sizes are in elements.
struct TransformerConfig {
  std::string architecture;
  int64_t vocab = 0, dim = 0;
  int32_t layers = 0;
  int32_t mtp_layers = 0;  ///< multi-token prediction (MTP) layers, after the others
  int32_t context = 0;     ///< trained context length in positions
  InputConfig input;
  PositionConfig positions;
  NormConfig norms;
  AttentionConfig attention;
  LatentConfig latent;
  IndexConfig index;
  RecurrentConfig recurrent;
  FeedForwardConfig feed_forward;
  ExpertConfig experts;
  ResidualConfig residual;
  Multipliers multipliers;
  OutputConfig output;
  SourceConfig source;
  /// Sequences may exceed the original context, so that queries at later positions have a
  /// temperature. Set when a model is loaded, as `sparse`.
  bool long_context = false;
  /// Sequences may exceed IndexConfig::used positions, so that attention is sparse.
  bool sparse = false;

  /// Returns whether sequences of `length` positions need sparse attention.
  bool is_sparse_at(int32_t length) const { return index.used > 0 && length > index.used; }
  ActivateAttr activation_of(int32_t layer) const;
  int32_t head_dim_of(int32_t layer) const {
    return is_local(layer) && attention.local_head_dim > 0 ? attention.local_head_dim
                                                           : attention.head_dim;
  }
  int32_t kv_heads_of(int32_t layer) const {
    return is_local(layer) && attention.local_kv_heads > 0 ? attention.local_kv_heads
                                                           : attention.kv_heads;
  }
  /// Whether the layer uses the keys and values of an earlier layer.
  bool shares_kv(int32_t layer) const { return layer >= layers - attention.shared_kv_layers; }
  int64_t hidden_of(int32_t layer) const {
    return shares_kv(layer) && feed_forward.shared_kv_hidden > 0 ? feed_forward.shared_kv_hidden
                                                                 : feed_forward.hidden;
  }
  /// Returns the layer whose keys and values `layer` attends to, or -1 if there is none.
  int32_t keys_of(int32_t layer) const;
  bool is_local(int32_t layer) const {
    return attention.window > 0 && flag_of(attention.local, layer, false);
  }
  bool is_recurrent(int32_t layer) const {
    return recurrent.mixer != Mixer::kNone && flag_of(recurrent.layers, layer, true);
  }
  bool mixes(int32_t layer) const { return !flag_of(feed_forward.alone, layer, false); }
  bool feeds(int32_t layer) const { return flag_of(feed_forward.alone, layer, true); }
  bool is_rotated(int32_t layer) const {
    return positions.rope.dims > 0 && !flag_of(positions.unrotated, layer, false);
  }

 private:
  // Returns the flag of a layer; `all` if flags are not given by layer.
  static bool flag_of(const std::vector<bool>& flags, int32_t layer, bool all) {
    return flags.empty() ? all : flags[static_cast<size_t>(layer)];
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

/// Sets c.recurrent and c.feed_forward.hidden of a kXlstmBlocks model from the tensors of `file`.
/// Throws kFormat naming a tensor with an invalid shape.
void find_xlstm_sizes(const ModelFile& file, TransformerConfig& c);

/// Returns YaRN's factor on cos and sin (Peng et al., arXiv:2309.00071).
double yarn_magnitude(double factor, double weight);

/// Returns by layer whether it is local: every `period`-th layer is global; period 0: all are
/// local.
std::vector<bool> local_pattern(int32_t layers, int32_t period);

}  // namespace veery
