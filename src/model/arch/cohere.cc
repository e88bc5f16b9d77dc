// cohere.cc: Cohere's models: attention and feed-forward part in parallel after one layer norm
// without bias, RoPE on adjacent elements.
// - Command R (Cohere, 2024).
// - Cohere 2 (Command R7B, Command A, Aya): RoPE in local layers only.
// - Cohere 2 MoE (2026): leading dense layers, which have RoPE too; shared and routed experts are
//   averaged; some models use RMS norms.
#include "model/arch/arch.h"
#include "model/layers.h"
#include "model/number_ranges.h"

namespace veery {

Array cohere(Trace& t, const TransformerConfig& c) {
  return decoder(t, c, [&](Array x, const Angles& angles, int32_t layer) {
    const Array h = norm(t, c, "attn_norm", x);
    x = x + attention_block(t, c, h, angles, layer);
    return x + feed_forward(t, c, h);
  });
}

void complete_cohere2(TransformerConfig& c) {
  for (int32_t layer = 0; layer < c.layers; ++layer)
    c.positions.unrotated.push_back(!c.is_local(layer));
}

// llama.cpp always averages shared and routed experts. A key of veery marks models that add them.
void complete_cohere_moe_gguf(TransformerConfig& c, const Metadata& metadata) {
  const auto number = [&](const char* key) {
    return checked_number(metadata, c.architecture + key);
  };
  if (!number(".attention.layer_norm_rms_epsilon")) c.norms.kind = Norm::kLayer;
  const bool shared = c.experts.shared_hidden > 0;
  c.experts.scale = static_cast<float>(number(".expert_sum_scale").value_or(shared ? 0.5 : 1));
  if (!c.experts.route.sigmoid) c.experts.route.normalise = true;
  const int64_t dense = metadata.integer(c.architecture + ".leading_dense_block_count").value_or(0);
  for (int32_t layer = 0; layer < c.layers; ++layer)
    c.positions.unrotated.push_back(!c.is_local(layer) && layer >= dense);
}

}  // namespace veery
