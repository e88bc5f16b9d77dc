#include "model/layers.h"

namespace veery {

Array project(Trace& t, const std::string& name, Array x, int64_t out) {
  const Array w = t.weight(name, {out, x.shape().cols});
  return linear(x, w, t.has_bias(name) ? t.bias(name, out) : Array{});
}

Array attention(Trace& t, const DecoderConfig& c, Array h, Array angles, int32_t window) {
  const int64_t q_dim = int64_t{c.heads} * c.head_dim;
  const int64_t kv_dim = int64_t{c.kv_heads} * c.head_dim;
  Array q = project(t, "attn_q", h, q_dim);
  Array k = project(t, "attn_k", h, kv_dim);
  const Array v = project(t, "attn_v", h, kv_dim);
  if (t.has_weight("attn_q_norm")) {
    q = rms_norm(q, t.vector("attn_q_norm", c.head_dim), c.norm_eps, c.heads);
    k = rms_norm(k, t.vector("attn_k_norm", c.head_dim), c.norm_eps, c.kv_heads);
  }
  q = rope(q, angles, {c.heads, c.rope.dims, c.rope_interleaved});
  k = rope(k, angles, {c.kv_heads, c.rope.dims, c.rope_interleaved});
  const Array keys = t.remember("attn.k", k, {true, c.kv_heads, window});
  const Array values = t.remember("attn.v", v, {false, c.kv_heads, window});
  return t.name("attn.out", attend(t.name("attn.q", q), keys, values,
                                   {.heads = c.heads,
                                    .kv_heads = c.kv_heads,
                                    .scale = c.attention_scale,
                                    .window = window}));
}

Array gated_ffn(Trace& t, const DecoderConfig& c, Array h) {
  const Array gate = activate(project(t, "ffn_gate", h, c.hidden), c.activation);
  const Array up = project(t, "ffn_up", h, c.hidden);
  return project(t, "ffn_down", gate * up, c.dim);
}

Array output_head(Trace& t, const DecoderConfig& c, Array x, Array embedding) {
  x = rms_norm(t.select_outputs(x), t.vector("output_norm", c.dim), c.norm_eps);
  const Array head = c.tied ? embedding : t.weight("output", {c.vocab, c.dim});
  return t.name("logits", linear(x, head));
}

}  // namespace veery
