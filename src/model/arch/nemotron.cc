// nemotron.cc: Nemotron 4 (Parmar et al., arXiv:2402.16819) and Minitron: layer norms, partial
// RoPE, ungated feed-forward layers with ReLU squared.
#include "model/arch/arch.h"
#include "model/layers.h"

namespace veery {

Array nemotron(Trace& t, const TransformerConfig& c) {
  return decoder(t, c, [&](Array x, const Angles& angles, int32_t layer) {
    x = x + attention_block(t, c, norm(t, c, "attn_norm", x), angles, layer);
    return x + dense_feed_forward(t, c, norm(t, c, "ffn_norm", x));
  });
}

}  // namespace veery
