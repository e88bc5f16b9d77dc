// phi3.cc: Phi-3, Phi-3.5 and Phi-4 (Abdin et al., arXiv:2404.14219): fused projections, which
// open_model() splits; partial RoPE; LongRoPE factors. Phi-3.5-MoE has layer norms, and experts
// whose weights are not normalised (SparseMixer).
#include <cmath>

#include "model/arch/arch.h"
#include "model/layers.h"
#include "model/number_ranges.h"

namespace veery {

Array phi3(Trace& t, const TransformerConfig& c) {
  return decoder(t, c, [&](Array x, const Angles& angles, int32_t layer) {
    x = x + attention_block(t, c, norm(t, c, "attn_norm", x), angles, layer);
    return x + feed_forward(t, c, norm(t, c, "ffn_norm", x));
  });
}

// GGUF has a separate key for the magnitude of LongRoPE angles.
void complete_phi3_gguf(TransformerConfig& c, const Metadata& metadata) {
  const double magnitude =
      checked_number(metadata, c.architecture + ".rope.scaling.attn_factor").value_or(1);
  if (c.positions.rope.scaling == RopeScaling::kNone) c.positions.rope.attention_factor = magnitude;
  c.positions.local_rope = c.positions.rope;
}

void complete_phimoe_gguf(TransformerConfig& c, const Metadata& metadata) {
  complete_phi3_gguf(c, metadata);
  c.experts.route.jitter =
      static_cast<float>(checked_number(metadata, "phimoe.expert_jitter").value_or(0.01));
}

}  // namespace veery
