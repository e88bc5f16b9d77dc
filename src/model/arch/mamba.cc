// mamba.cc: models with Mamba or Mamba-2 layers.
// - Mamba-2 (Dao and Gu, arXiv:2405.21060): recurrent layers only, without feed-forward layers.
// - Jamba (AI21 Labs, arXiv:2403.19887): Mamba layers between attention layers without positions;
//   experts in some layers.
// - Nemotron-H and Nemotron 3 (NVIDIA, arXiv:2504.03624): each layer is either Mamba-2, attention
//   without positions, or an ungated feed-forward layer or experts.
// - Falcon-H1 (TII, arXiv:2507.22448): attention and Mamba-2 in parallel in every layer, with muP
//   multipliers.
#include "model/arch/arch.h"
#include "model/layers.h"
#include "model/recurrent.h"

namespace veery {

Array mamba2(Trace& t, const TransformerConfig& c) {
  return decoder(t, c, [&](Array x, const Angles&, int32_t) {
    return x + mamba2_block(t, c, norm(t, c, "attn_norm", x));
  });
}

Array jamba(Trace& t, const TransformerConfig& c) {
  return decoder(t, c, [&](Array x, const Angles& angles, int32_t layer) {
    Array h = norm(t, c, "attn_norm", x);
    h = c.is_recurrent(layer) ? mamba1_block(t, c, h) : attention_block(t, c, h, angles, layer);
    x = x + h;
    return x + feed_forward(t, c, norm(t, c, "ffn_norm", x));
  });
}

Array nemotron_h(Trace& t, const TransformerConfig& c) {
  return decoder(t, c, [&](Array x, const Angles& angles, int32_t layer) {
    const Array h = norm(t, c, "attn_norm", x);
    if (!c.mixes(layer)) return x + feed_forward(t, c, h);
    return x + (c.is_recurrent(layer) ? mamba2_block(t, c, h)
                                      : attention_block(t, c, h, angles, layer));
  });
}

Array falcon_h1(Trace& t, const TransformerConfig& c) {
  const Multipliers& m = c.multipliers;
  return decoder(t, c, [&](Array x, const Angles& angles, int32_t layer) {
    const Array h = norm(t, c, "attn_norm", x);
    const Array y = mamba2_block(t, c, scaled(h, m.recurrent_in));
    const Array a = attention_block(t, c, scaled(h, m.attention_in), angles, layer);
    x = x + (scaled(y, m.recurrent_out) + scaled(a, m.attention_out));
    return x + dense_feed_forward(t, c, norm(t, c, "ffn_norm", x));
  });
}

}  // namespace veery
