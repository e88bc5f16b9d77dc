// nemotron.cc: Nemotron 4 and Minitron (Parmar et al., 2024), with layer norms, parts of heads
// turned and the square of ReLU in a feed-forward part without a gate. Arcee's AFM (2025) and
// BitNet b1.58 (Ma et al., 2024) are llama with that activation, the first without a gate, the
// second with norms in front of the last projection of each part.
#include "model/arch/arch.h"
#include "model/layers.h"

namespace veery {

Array nemotron(Trace& t, const TransformerConfig& c) { return plain_decoder(t, c); }

void complete_nemotron(TransformerConfig& c) {
  c.norm = Norm::kLayer;
  c.gated = false;
}

void complete_arcee(TransformerConfig& c) { c.gated = false; }

void complete_relu_squared_gguf(TransformerConfig& c, const Metadata&) {
  c.activation = Activation::kReluSquared;
}

}  // namespace veery
