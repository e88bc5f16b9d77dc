// llama.cc: Llama 1 to 3 (Touvron et al., arXiv:2302.13971; Grattafiori et al., arXiv:2407.21783)
// and models that differ only in hyperparameters or optional parts:
// - Mistral (Jiang et al., arXiv:2310.06825): sliding window. Ministral 3: temperature of far
//   positions.
// - Mixtral (Jiang et al., arXiv:2401.04088): experts.
// - SmolLM3 (Bakouch et al., 2025): some layers without RoPE (NoPE).
// - Granite 3 (IBM, 2024): factors on embedding, residuals, scores and logits, some with experts.
// - MiniCPM (Hu et al., arXiv:2404.06395): other such factors.
// - Helium, GLM and Ernie 4.5: RoPE on adjacent elements; the larger Ernie 4.5 models have experts.
// - Seed-OSS and InternLM: biases. HunYuan (Tencent, 2025): QK norm after RoPE.
// - Jamba (AI21 Labs, arXiv:2403.19887): Mamba layers between attention layers.
// - Exaone 3 (LG AI Research, 2024) and InternLM 2: other tensor names.
#include <cmath>

#include "model/arch/arch.h"
#include "model/layers.h"

namespace veery {

Array llama(Trace& t, const TransformerConfig& c) { return plain_decoder(t, c); }

// In model folders, too; GGUF has no such files.
void complete_helium(TransformerConfig& c) { c.positions.interleaved = true; }

void complete_smollm3_gguf(TransformerConfig& c, const Metadata&) {
  c.positions.unrotated = local_pattern(c.layers, 4);
  c.positions.unrotated.flip();
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

void complete_ernie_moe(TransformerConfig& c) {
  c.positions.interleaved = true;
  c.experts.route.sigmoid = false;
  c.experts.route.normalise = true;
}

void complete_hunyuan(TransformerConfig& c) { c.norms.qk_after_rope = true; }

// This family divides logits by logit_scale. Old files have none of the three keys.
void complete_minicpm_gguf(TransformerConfig& c, const Metadata& metadata) {
  const auto has = [&](const char* key) { return metadata.number(key).has_value(); };
  if (!has("minicpm.embedding_scale")) c.input.scale = 12;
  if (!has("minicpm.residual_scale"))
    c.residual.scale = static_cast<float>(1.4 / std::sqrt(static_cast<double>(c.layers)));
  c.output.scale =
      has("minicpm.logit_scale") ? 1 / c.output.scale : 256 / static_cast<float>(c.dim);
}

void complete_mixture_gguf(TransformerConfig& c, const Metadata& metadata) {
  c.experts.route.normalise =
      metadata.boolean(c.architecture + ".expert_weights_norm").value_or(true);
}

}  // namespace veery
