// registry.h: the architectures that can be run, by the name in the file.
#pragma once
#include <string_view>
#include <vector>

#include "model/config.h"
#include "model/trace.h"

namespace veery {

/// One architecture: what its files do not say, and its definition.
struct Architecture {
  std::string_view name;
  /// GGUF converters permute the rows of Q and K, so that the pairs of RoPE are neighbours.
  bool gguf_interleaved;
  /// Fills in what no container says.
  void (*complete)(TransformerConfig&);
  /// Fills in what GGUF leaves out.
  void (*complete_gguf)(TransformerConfig&, const Metadata&);
  /// tokens -> logits (outputs, vocab).
  Array (*define)(Trace&, const TransformerConfig&);
  Positions positions = Positions::kRope;
  /// Where GGUF says that there is a window but not which layers have it: every so many layers one
  /// sees everything; 0: none does.
  int32_t window_period = 0;
  /// What GGUF calls it, where that is not `name`.
  std::string_view gguf_name = {};
  Mixer mixer = Mixer::kNone;  ///< of its recurrent layers
  bool joint_mixers = false;   ///< recurrent layers attend too
  /// Layers may differ in the size of heads, the number of key heads and the feed-forward part.
  bool layer_sizes = false;
  /// Where the decoder attends to an encoder: its hidden states [rows, dim], and what of them is
  /// written for each layer.
  std::vector<Array> (*encoder)(Trace&, const TransformerConfig&) = nullptr;
};

const std::vector<Architecture>& architectures();

/// Throws kUnsupported naming the architecture and those there are.
const Architecture& find_architecture(std::string_view name);

}  // namespace veery
