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
                                    .window = window,
                                    .softcap = c.attention_softcap}));
}

Angles angles(Trace& t, const DecoderConfig& c) {
  // Divisors: of Llama 3.1's scaling, which GGUF converters write out, and of longrope.
  Array divisors;
  for (const char* name :
       {"rope_freqs", c.long_context ? "rope_factors_long" : "rope_factors_short"})
    if (t.has_weight(name)) divisors = t.vector(name, c.rope.dims / 2);
  Angles result;
  result.global = rope_angles(t.positions(), c.rope, divisors);
  const bool same = c.window == 0 || c.local.empty() || c.local_rope == c.rope;
  result.local = same ? result.global : rope_angles(t.positions(), c.local_rope);
  return result;
}

Array attention_block(Trace& t, const DecoderConfig& c, Array h, const Angles& angles,
                      int32_t layer) {
  const bool local = c.is_local(layer);
  h = attention(t, c, h, local ? angles.local : angles.global, local ? c.window : 0);
  return project(t, "attn_output", h, c.dim);
}

Array plain_decoder(Trace& t, const DecoderConfig& c) {
  const Array embedding = t.weight("token_embd", {c.vocab, c.dim});
  const Angles rope = angles(t, c);
  Array x = embed(t.tokens(), embedding, c.embedding_scale);
  t.blocks(c.layers, [&](int32_t layer) {
    Array h = rms_norm(x, t.vector("attn_norm", c.dim), c.norm_eps);
    x = x + attention_block(t, c, h, rope, layer);
    h = rms_norm(x, t.vector("ffn_norm", c.dim), c.norm_eps);
    x = t.name("out", x + gated_ffn(t, c, h));
  });
  return output_head(t, c, x, embedding);
}

Array sandwich_decoder(Trace& t, const DecoderConfig& c) {
  const Array embedding = t.weight("token_embd", {c.vocab, c.dim});
  const Angles rope = angles(t, c);
  Array x = embed(t.tokens(), embedding, c.embedding_scale);
  t.blocks(c.layers, [&](int32_t layer) {
    Array h = rms_norm(x, t.vector("attn_norm", c.dim), c.norm_eps);
    h = attention_block(t, c, h, rope, layer);
    x = x + rms_norm(h, t.vector("post_attention_norm", c.dim), c.norm_eps);
    h = rms_norm(x, t.vector("ffn_norm", c.dim), c.norm_eps);
    h = gated_ffn(t, c, h);
    x = t.name("out", x + rms_norm(h, t.vector("post_ffw_norm", c.dim), c.norm_eps));
  });
  return output_head(t, c, x, embedding);
}

Array gated_ffn(Trace& t, const DecoderConfig& c, Array h) {
  const Array gate = activate(project(t, "ffn_gate", h, c.hidden), c.activation);
  const Array up = project(t, "ffn_up", h, c.hidden);
  return project(t, "ffn_down", gate * up, c.dim);
}

Array output_head(Trace& t, const DecoderConfig& c, Array x, Array embedding) {
  x = rms_norm(t.select_outputs(x), t.vector("output_norm", c.dim), c.norm_eps);
  const Array head = c.tied ? embedding : t.weight("output", {c.vocab, c.dim});
  Array logits = linear(x, head);
  if (c.logit_softcap > 0) logits = softcap(logits, c.logit_softcap);
  return t.name("logits", logits);
}

}  // namespace veery
