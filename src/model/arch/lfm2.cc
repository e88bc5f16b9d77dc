// lfm2.cc: LFM2 (Liquid AI, arXiv:2511.23404): gated short convolutions and, every few layers,
// attention; optionally experts. The configuration lists the type of each layer.
#include "model/arch/arch.h"
#include "model/layers.h"
#include "model/recurrent.h"

namespace veery {

Array lfm2(Trace& t, const TransformerConfig& c) {
  return decoder(t, c, [&](Array x, const Angles& angles, int32_t layer) {
    const Array h = norm(t, c, "attn_norm", x);
    x = x + (c.is_recurrent(layer) ? short_conv_block(t, c, h)
                                   : attention_block(t, c, h, angles, layer));
    return x + feed_forward(t, c, norm(t, c, "ffn_norm", x));
  });
}

// Experts are selected by sigmoid scores with a bias correction.
void complete_lfm2_moe(TransformerConfig& c) { c.experts.route.sigmoid = true; }

// LFM3: also norms after both parts.
Array lfm3(Trace& t, const TransformerConfig& c) {
  return decoder(t, c, [&](Array x, const Angles& angles, int32_t layer) {
    Array h = norm(t, c, "attn_norm", x);
    h = c.is_recurrent(layer) ? short_conv_block(t, c, h) : attention_block(t, c, h, angles, layer);
    x = x + norm(t, c, "post_attention_norm", h);
    return x + norm(t, c, "post_ffw_norm", feed_forward(t, c, norm(t, c, "ffn_norm", x)));
  });
}

}  // namespace veery
