// registry.h: the supported architectures, by their name in files.
#pragma once
#include <string_view>
#include <vector>

#include "model/config.h"
#include "model/trace.h"

namespace veery {

/// An architecture: its definition and the hyperparameters that files do not specify. Its weights
/// are in model/weight_rules.cc.
struct Architecture {
  std::string_view name;
  /// GGUF converters permute the rows of q and k, so that RoPE pairs adjacent elements.
  bool gguf_interleaved;
  /// Sets hyperparameters that no file format specifies.
  void (*complete)(TransformerConfig&);
  /// Sets hyperparameters that GGUF does not specify.
  void (*complete_gguf)(TransformerConfig&, const Metadata&);
  /// The definition: tokens -> logits [outputs, vocab].
  Array (*define)(Trace&, const TransformerConfig&);
  Positions positions = Positions::kRope;
  /// For GGUF files with a window but without a list of local layers: every window_period-th layer
  /// is global; 0: all layers are local.
  int32_t window_period = 0;
  /// The name in GGUF files, if it differs from `name`.
  std::string_view gguf_name = {};
  Mixer mixer = Mixer::kNone;  ///< type of its recurrent layers
  bool joint_mixers = false;   ///< recurrent layers have attention in parallel
  /// Layers may differ in head size, number of key heads and width of the feed-forward layer.
  bool layer_sizes = false;
  /// The encoder, for decoders with cross-attention: its hidden states [rows, dim], and the keys
  /// and values written for each decoder layer.
  std::vector<Array> (*encoder)(Trace&, const TransformerConfig&) = nullptr;
};

const std::vector<Architecture>& architectures();

/// Throws kUnsupported, naming the architecture and the supported ones.
const Architecture& find_architecture(std::string_view name);

}  // namespace veery
