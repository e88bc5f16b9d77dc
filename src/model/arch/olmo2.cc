// olmo2.cc: OLMo 2 and 3, OLMoE and Exaone 4.
// - OLMo 2 and 3 (OLMo Team, arXiv:2501.00656; 2025): norms after each part instead of before, QK
//   norm over all heads; OLMo 3 has local layers with unscaled RoPE.
// - OLMoE (Muennighoff et al., arXiv:2409.02060): pre-norm, QK norm over all heads, experts.
// - Exaone 4 (LG AI Research, 2025): norms as in OLMo 2, QK norm per head; RoPE in local layers
//   only, if there are any.
#include "model/arch/arch.h"
#include "model/layers.h"
#include "model/number_ranges.h"

namespace veery {

Array olmo2(Trace& t, const TransformerConfig& c) {
  return decoder(t, c, [&](Array x, const Angles& angles, int32_t layer) {
    x = x + norm(t, c, "post_attention_norm", attention_block(t, c, x, angles, layer));
    return x + norm(t, c, "post_ffw_norm", feed_forward(t, c, x));
  });
}

Array olmoe(Trace& t, const TransformerConfig& c) {
  return decoder(t, c, [&](Array x, const Angles& angles, int32_t layer) {
    x = x + attention_block(t, c, norm(t, c, "attn_norm", x), angles, layer);
    return x + mixture_of_experts(t, c, norm(t, c, "ffn_norm", x));
  });
}

void complete_exaone4(TransformerConfig& c) {
  if (c.attention.window == 0) return;
  for (int32_t layer = 0; layer < c.layers; ++layer)
    c.positions.unrotated.push_back(!c.is_local(layer));
}

void complete_olmo2_gguf(TransformerConfig& c, const Metadata& metadata) {
  if (c.attention.window == 0) return;
  const double theta =
      checked_number(metadata, "olmo2.rope.freq_base_swa").value_or(c.positions.rope.theta);
  c.positions.local_rope = {.dims = c.positions.rope.dims, .theta = theta};
}

}  // namespace veery
