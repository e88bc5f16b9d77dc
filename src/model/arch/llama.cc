// llama.cc: Llama 1 to 3 and what shares their form (Touvron et al., 2023; Grattafiori et al.,
// 2024).
#include "model/arch/arch.h"
#include "model/layers.h"

namespace veery {

Array llama(Trace& t, const DecoderConfig& c) {
  const Array embedding = t.weight("token_embd", {c.vocab, c.dim});
  // Llama 3.1 and later: the converter writes the long-context scaling as a divisor a pair.
  const Array divisors =
      t.has_weight("rope_freqs") ? t.vector("rope_freqs", c.rope.dims / 2) : Array{};
  const Array angles = rope_angles(t.positions(), c.rope, divisors);
  Array x = embed(t.tokens(), embedding, c.embedding_scale);
  t.blocks(c.layers, [&](int32_t) {
    Array h = rms_norm(x, t.vector("attn_norm", c.dim), c.norm_eps);
    x = x + project(t, "attn_output", attention(t, c, h, angles, c.window), c.dim);
    h = rms_norm(x, t.vector("ffn_norm", c.dim), c.norm_eps);
    x = t.name("out", x + gated_ffn(t, c, h));
  });
  return output_head(t, c, x, embedding);
}

// GGUF converters permute the rows of Q and K of this architecture, so that pairs are neighbours.
void complete_llama(DecoderConfig& c, const Metadata&) { c.rope_interleaved = true; }

}  // namespace veery
