// llama.cc: Llama 1 to 3 (Touvron et al., arXiv:2302.13971; Grattafiori et al., arXiv:2407.21783)
// and models that differ only in hyperparameters or optional parts:
// - Mistral (Jiang et al., arXiv:2310.06825): sliding window. Ministral 3: temperature of far
//   positions.
// - Mixtral (Jiang et al., arXiv:2401.04088): experts.
// - SmolLM3 (Bakouch et al., 2025): some layers without RoPE (NoPE).
// - Helium, GLM and Ernie 4.5: RoPE on adjacent elements; the larger Ernie 4.5 models have experts.
// - Seed-OSS and InternLM: biases. HunYuan (Tencent, 2025): QK norm after RoPE.
// - Exaone 3 (LG AI Research, 2024) and InternLM 2: other tensor names.
// - OLMo (Groeneveld et al., arXiv:2402.00838): layer norms without weights.
// - Arcee AFM (2025): ungated feed-forward layers with ReLU squared.
// - BitNet b1.58 (Ma et al., arXiv:2402.17764): norms before the last projection of each part.
#include "model/arch/arch.h"
#include "model/layers.h"

namespace veery {

Array llama(Trace& t, const TransformerConfig& c) {
  return decoder(t, c, [&](Array x, const Angles& angles, int32_t layer) {
    x = x + attention_block(t, c, norm(t, c, "attn_norm", x), angles, layer);
    return x + feed_forward(t, c, norm(t, c, "ffn_norm", x));
  });
}

void complete_smollm3_gguf(TransformerConfig& c, const Metadata&) {
  c.positions.unrotated = local_pattern(c.layers, 4);
  c.positions.unrotated.flip();
}

void complete_ernie_moe(TransformerConfig& c) {
  c.experts.route.sigmoid = false;
  c.experts.route.normalise = true;
}

void complete_mixture_gguf(TransformerConfig& c, const Metadata& metadata) {
  c.experts.route.normalise =
      metadata.boolean(c.architecture + ".expert_weights_norm").value_or(true);
}

}  // namespace veery
