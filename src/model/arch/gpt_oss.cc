// gpt_oss.cc: gpt-oss (OpenAI, 2025): experts with clamped SwiGLU and biases, attention sinks, a
// sliding window in every other layer.
#include "model/arch/arch.h"
#include "model/layers.h"

namespace veery {

Array gpt_oss(Trace& t, const TransformerConfig& c) {
  return decoder(t, c, [&](Array x, const Angles& angles, int32_t layer) {
    x = x + attention_block(t, c, norm(t, c, "attn_norm", x), angles, layer);
    return x + mixture_of_experts(t, c, norm(t, c, "ffn_norm", x));
  });
}

// Defaults; config.json may override them, GGUF has no keys for them.
void complete_gpt_oss(TransformerConfig& c) {
  if (c.experts.moe.limit == 0) c.experts.moe.limit = 7;
  if (c.experts.moe.alpha == 1) c.experts.moe.alpha = 1.702F;
  c.experts.route.normalise = true;
}

// In GGUF files the ramp of YaRN is not truncated to whole pairs unless stated.
void complete_gpt_oss_gguf(TransformerConfig& c, const Metadata& metadata) {
  if (c.positions.rope.scaling != RopeScaling::kYarn) return;
  c.positions.rope.truncate =
      metadata.boolean("gpt-oss.rope.scaling.yarn_truncate").value_or(false);
  c.positions.local_rope = c.positions.rope;
}

}  // namespace veery
