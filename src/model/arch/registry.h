// registry.h: the supported architectures, by their name in files.
#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "model/config.h"
#include "model/trace.h"

namespace veery {

/// An architecture: its definition and the hyperparameters that files do not specify. Rows state
/// only what differs from the defaults. Its weights are in model/weight_rules.cc.
struct Architecture {
  std::string_view name;
  /// The name in GGUF files, if it differs from `name`.
  std::string_view gguf_name = {};
  /// The definition: tokens -> logits [outputs, vocab].
  Array (*define)(Trace&, const TransformerConfig&);
  /// The encoder, for decoders with cross-attention: its hidden states [rows, dim], and the keys
  /// and values written for each decoder layer.
  std::vector<Array> (*encoder)(Trace&, const TransformerConfig&) = nullptr;
  // Hyperparameters that files leave out, by part. Files may override them.
  PositionConfig positions;
  NormConfig norms;
  AttentionConfig attention;
  Mixer mixer = Mixer::kNone;    ///< type of its recurrent layers
  bool parallel_mixers = false;  ///< recurrent layers have attention in parallel
  FeedForwardConfig feed_forward;
  /// Layers may differ in head size, number of key heads and width of the feed-forward layer.
  bool layer_sizes = false;
  bool scaled_residuals = false;  ///< the definition applies ResidualConfig::scale
  /// GGUF converters permute the rows of q and k, so that RoPE pairs adjacent elements.
  bool gguf_interleaved_rope = false;
  /// For GGUF files with a window but without a list of local layers: the period of layers with
  /// global attention; 0: all layers are local.
  int32_t gguf_global_period = 0;
  /// Sets hyperparameters that no file format specifies and that depend on others.
  void (*complete)(TransformerConfig&) = [](TransformerConfig&) {};
  /// Sets hyperparameters that GGUF does not specify. Called before `complete`.
  void (*complete_gguf)(TransformerConfig&, const Metadata&) = [](TransformerConfig&,
                                                                  const Metadata&) {};
};

const std::vector<Architecture>& architectures();

/// Returns a configuration with the name and the hyperparameters of a row, for a reader to fill.
TransformerConfig initial_config(const Architecture& row);

/// Throws kUnsupported, naming the architecture and the supported ones.
const Architecture& find_architecture(std::string_view name);

/// Throws kUnsupported, naming `where`, if the configuration has a residual scale that the
/// architecture's definition does not apply.
void check_residual_scale(const TransformerConfig& c, const std::string& where);

}  // namespace veery
