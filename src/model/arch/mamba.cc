// mamba.cc: models with Mamba-2 layers.
// - Mamba-2 (Dao and Gu, arXiv:2405.21060): recurrent layers only, without feed-forward layers.
// - Nemotron-H and Nemotron 3 (NVIDIA, arXiv:2504.03624): each layer is either Mamba-2, attention
//   without positions, or an ungated feed-forward layer or experts.
// - Falcon-H1 (TII, arXiv:2507.22448): attention and Mamba-2 in parallel in every layer, with muP
//   multipliers.
#include "model/arch/arch.h"
#include "model/layers.h"

namespace veery {

Array mamba2(Trace& t, const TransformerConfig& c) { return recurrent_decoder(t, c); }

Array nemotron_h(Trace& t, const TransformerConfig& c) {
  return decoder(t, c, [&](Array x, const Angles& angles, int32_t layer) {
    const Array h = norm(t, c, "attn_norm", x);
    return x + (c.mixes(layer) ? mixer_block(t, c, h, angles, layer) : feed_forward(t, c, h));
  });
}

void complete_nemotron_h(TransformerConfig& c) { c.feed_forward.gated = false; }

Array falcon_h1(Trace& t, const TransformerConfig& c) {
  return decoder(t, c, [&](Array x, const Angles& angles, int32_t layer) {
    x = x + joint_block(t, c, norm(t, c, "attn_norm", x), angles, layer);
    return x + feed_forward(t, c, norm(t, c, "ffn_norm", x));
  });
}

}  // namespace veery
