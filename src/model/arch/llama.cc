// llama.cc: Llama 1 to 3 (Touvron et al., 2023; Grattafiori et al., 2024), and what differs from it
// by numbers only: Mistral has a window on all layers (Jiang et al., 2023), Ministral 3 a
// temperature of far positions, SmolLM3 layers without RoPE (Bakouch et al., 2025), Granite 3
// factors on embedding, residuals, scores and logits (IBM, 2024), some also experts, Helium, GLM
// and Ernie 4.5 other pairs of RoPE, Mixtral experts (Jiang et al., 2024), Seed-OSS biases.
#include <cmath>

#include "base/error.h"
#include "model/arch/arch.h"
#include "model/layers.h"

namespace veery {

Array llama(Trace& t, const DecoderConfig& c) { return plain_decoder(t, c); }

// In folders too; GGUF has no such files.
void complete_helium(DecoderConfig& c) { c.rope_interleaved = true; }

void complete_smollm3_gguf(DecoderConfig& c, const Metadata&) {
  c.unrotated = local_pattern(c.layers, 4);
  c.unrotated.flip();
}

// The logits are divided by this family's logit_scale.
void complete_granite_gguf(DecoderConfig& c, const Metadata& metadata) {
  if (c.logit_scale == 0)
    throw Error(ErrorKind::kFormat, "metadata: {}.logit_scale is 0, logits are divided by it",
                c.architecture);
  c.logit_scale = 1 / c.logit_scale;
  if (!metadata.boolean(c.architecture + ".rope.scaling.finetuned").value_or(true))
    c.unrotated.assign(static_cast<size_t>(c.layers), true);
}

void complete_granitemoe_gguf(DecoderConfig& c, const Metadata& metadata) {
  complete_granite_gguf(c, metadata);
  complete_mixture_gguf(c, metadata);
}

void complete_mixture_gguf(DecoderConfig& c, const Metadata& metadata) {
  c.experts.route.normalise =
      metadata.boolean(c.architecture + ".expert_weights_norm").value_or(true);
}

}  // namespace veery
