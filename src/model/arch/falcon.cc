// falcon.cc: Falcon 1 and 2 (Almazrouei et al., arXiv:2311.16867): attention and feed-forward part
// in parallel after a shared norm or one norm each, or in sequence.
#include "model/arch/arch.h"
#include "model/layers.h"

namespace veery {

Array falcon(Trace& t, const TransformerConfig& c) {
  return decoder(t, c, [&](Array x, const Angles& angles, int32_t layer) {
    const Array h = norm(t, c, "attn_norm", x);
    if (!c.residual.parallel) {
      x = x + attention_block(t, c, h, angles, layer);
      return x + dense_feed_forward(t, c, norm(t, c, "ffn_norm", x));
    }
    const Array a = t.has_weight("attn_norm_2") ? norm(t, c, "attn_norm_2", x) : h;
    x = x + attention_block(t, c, a, angles, layer);
    return x + dense_feed_forward(t, c, h);
  });
}

void complete_falcon_gguf(TransformerConfig& c, const Metadata& metadata) {
  c.residual.parallel = metadata.boolean("falcon.use_parallel_residual").value_or(true);
}

}  // namespace veery
