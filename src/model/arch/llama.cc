// llama.cc: Llama 1 to 3 (Touvron et al., 2023; Grattafiori et al., 2024), and what differs from it
// by numbers only: Mistral has a window on all layers (Jiang et al., 2023), Ministral 3 a
// temperature of far positions, SmolLM3 layers without RoPE (Bakouch et al., 2025), Granite 3
// factors on embedding, residuals, scores and logits (IBM, 2024), some also experts, and MiniCPM
// (Hu et al., 2024) other such factors, Helium, GLM and Ernie 4.5 other pairs of RoPE, the larger
// Ernie 4.5 experts, Mixtral experts (Jiang et al., 2024), Seed-OSS and InternLM biases, HunYuan
// norms of heads behind RoPE (Tencent, 2025),
// Jamba (AI21 Labs, 2024) Mamba layers between. Exaone 3 (LG AI Research, 2024) and InternLM 2 have
// other names.
#include <cmath>

#include "model/arch/arch.h"
#include "model/layers.h"

namespace veery {

Array llama(Trace& t, const TransformerConfig& c) { return plain_decoder(t, c); }

// In folders too; GGUF has no such files.
void complete_helium(TransformerConfig& c) { c.rope_interleaved = true; }

void complete_smollm3_gguf(TransformerConfig& c, const Metadata&) {
  c.unrotated = local_pattern(c.layers, 4);
  c.unrotated.flip();
}

// The logits are divided by this family's logit_scale.
void complete_granite_gguf(TransformerConfig& c, const Metadata& metadata) {
  c.logit_scale = 1 / c.logit_scale;
  if (!metadata.boolean(c.architecture + ".rope.scaling.finetuned").value_or(true))
    c.unrotated.assign(static_cast<size_t>(c.layers), true);
}

void complete_granitemoe_gguf(TransformerConfig& c, const Metadata& metadata) {
  complete_granite_gguf(c, metadata);
  complete_mixture_gguf(c, metadata);
}

// A dense model calls its feed-forward part the shared one.
void complete_granitehybrid_gguf(TransformerConfig& c, const Metadata& metadata) {
  complete_granitemoe_gguf(c, metadata);
  const auto shared = metadata.integer("granitehybrid.expert_shared_feed_forward_length");
  if (c.experts.count == 0 && shared && *shared > 0 && *shared <= kMaxSize) c.hidden = *shared;
}

void complete_ernie_moe(TransformerConfig& c) {
  c.rope_interleaved = true;
  c.experts.route.sigmoid = false;
  c.experts.route.normalise = true;
}

void complete_hunyuan(TransformerConfig& c) { c.head_norm_last = true; }

// Logits are divided by the key. Older files have none of the three.
void complete_minicpm_gguf(TransformerConfig& c, const Metadata& metadata) {
  const auto has = [&](const char* key) { return metadata.number(key).has_value(); };
  if (!has("minicpm.embedding_scale")) c.embedding_scale = 12;
  if (!has("minicpm.residual_scale"))
    c.residual_scale = static_cast<float>(1.4 / std::sqrt(static_cast<double>(c.layers)));
  c.logit_scale = has("minicpm.logit_scale") ? 1 / c.logit_scale : 256 / static_cast<float>(c.dim);
}

void complete_mixture_gguf(TransformerConfig& c, const Metadata& metadata) {
  c.experts.route.normalise =
      metadata.boolean(c.architecture + ".expert_weights_norm").value_or(true);
}

}  // namespace veery
