// granite.cc: models with factors on embedding, residuals, attention scores and logits.
// - Granite 3 (IBM, 2024): Llama with such factors, some with experts.
// - Granite 4 (IBM, 2025): Mamba-2 layers between attention layers. Bamba (IBM, 2024): the same
//   without factors.
// - MiniCPM (Hu et al., arXiv:2404.06395): other values of the factors.
#include <cmath>

#include "model/arch/arch.h"
#include "model/layers.h"
#include "model/recurrent.h"

namespace veery {

Array granite(Trace& t, const TransformerConfig& c) {
  return decoder(t, c, [&](Array x, const Angles& angles, int32_t layer) {
    const Array h = attention_block(t, c, norm(t, c, "attn_norm", x), angles, layer);
    x = x + scaled(h, c.residual.scale);
    return x + scaled(feed_forward(t, c, norm(t, c, "ffn_norm", x)), c.residual.scale);
  });
}

Array granite_hybrid(Trace& t, const TransformerConfig& c) {
  return decoder(t, c, [&](Array x, const Angles& angles, int32_t layer) {
    Array h = norm(t, c, "attn_norm", x);
    h = c.is_recurrent(layer) ? mamba2_block(t, c, h) : attention_block(t, c, h, angles, layer);
    x = x + scaled(h, c.residual.scale);
    return x + scaled(feed_forward(t, c, norm(t, c, "ffn_norm", x)), c.residual.scale);
  });
}

// This family divides logits by logit_scale.
void complete_granite_gguf(TransformerConfig& c, const Metadata& metadata) {
  c.output.scale = 1 / c.output.scale;
  if (!metadata.boolean(c.architecture + ".rope.scaling.finetuned").value_or(true))
    c.positions.unrotated.assign(static_cast<size_t>(c.layers), true);
}

void complete_granitemoe_gguf(TransformerConfig& c, const Metadata& metadata) {
  complete_granite_gguf(c, metadata);
  complete_mixture_gguf(c, metadata);
}

// Dense models store the width of their feed-forward layers as that of the shared expert.
void complete_granitehybrid_gguf(TransformerConfig& c, const Metadata& metadata) {
  complete_granitemoe_gguf(c, metadata);
  const auto shared = metadata.integer("granitehybrid.expert_shared_feed_forward_length");
  if (c.experts.count == 0 && shared && *shared > 0 && *shared <= kMaxSize)
    c.feed_forward.hidden = *shared;
}

// This family divides logits by logit_scale. Old files have none of the three keys.
void complete_minicpm_gguf(TransformerConfig& c, const Metadata& metadata) {
  complete_mixture_gguf(c, metadata);
  const auto has = [&](const char* key) { return metadata.number(key).has_value(); };
  if (!has("minicpm.embedding_scale")) c.input.scale = 12;
  if (!has("minicpm.residual_scale"))
    c.residual.scale = static_cast<float>(1.4 / std::sqrt(static_cast<double>(c.layers)));
  c.output.scale =
      has("minicpm.logit_scale") ? 1 / c.output.scale : 256 / static_cast<float>(c.dim);
}

}  // namespace veery
