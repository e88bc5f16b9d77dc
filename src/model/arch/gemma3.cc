// gemma3.cc: Gemma 3, text (Gemma Team, 2025): norms around each part, head norms, local and global
// layers.
#include <cmath>

#include "model/arch/arch.h"
#include "model/layers.h"

namespace veery {

Array gemma3(Trace& t, const DecoderConfig& c) {
  const Array embedding = t.weight("token_embd", {c.vocab, c.dim});
  const Array global = rope_angles(t.positions(), c.rope);
  const Array local = rope_angles(t.positions(), c.local_rope);
  Array x = embed(t.tokens(), embedding, c.embedding_scale);
  t.blocks(c.layers, [&](int32_t layer) {
    const bool is_local = c.is_local(layer);
    Array h = rms_norm(x, t.vector("attn_norm", c.dim), c.norm_eps);
    h = attention(t, c, h, is_local ? local : global, is_local ? c.window : 0);
    h = project(t, "attn_output", h, c.dim);
    x = x + rms_norm(h, t.vector("post_attention_norm", c.dim), c.norm_eps);
    h = rms_norm(x, t.vector("ffn_norm", c.dim), c.norm_eps);
    h = gated_ffn(t, c, h);
    x = t.name("out", x + rms_norm(h, t.vector("post_ffw_norm", c.dim), c.norm_eps));
  });
  return output_head(t, c, x, embedding);
}

// The files hold neither the pattern of windows nor the base of local layers; norm weights have the
// 1 of (1 + w) added by the converter.
void complete_gemma3(DecoderConfig& c, const Metadata& metadata) {
  c.embedding_scale = static_cast<float>(std::sqrt(static_cast<double>(c.dim)));
  c.activation = Activation::kGelu;
  c.window_period = 6;
  if (!metadata.number("gemma3.rope.freq_base")) c.rope.theta = 1e6;
  c.local_rope = AnglesAttr{.dims = c.rope.dims, .theta = 10000};
  if (c.layers == 62)
    c.attention_scale = static_cast<float>(1 / std::sqrt(static_cast<double>(c.dim / c.heads)));
}

}  // namespace veery
