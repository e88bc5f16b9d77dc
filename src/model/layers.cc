#include "model/layers.h"

#include <map>

namespace veery {
namespace {

Array norm_parts(Trace& t, const TransformerConfig& c, const std::string& name, Array x,
                 int64_t size, int groups) {
  const Array weight =
      c.norms.kind == Norm::kPlainLayer ? t.constant({1, size}, 1) : t.vector(name, size);
  if (c.norms.kind == Norm::kRms) {
    const Array y = rms_norm(x, weight, c.norms.eps, groups);
    return t.has_bias(name) ? y + t.bias(name, size) : y;
  }
  return layer_norm(x, weight, t.has_bias(name) ? t.bias(name, size) : Array{}, c.norms.eps,
                    groups);
}

// QK norm of queries or keys, if the model has one.
Array norm_heads(Trace& t, const TransformerConfig& c, const std::string& name, Array x,
                 int32_t heads, bool rotated) {
  if (c.norms.qk == QkNorm::kUnweighted && rotated)
    return rms_norm(x, t.constant({1, c.attention.head_dim}, 1), c.norms.eps, heads);
  if (!t.has_weight(name)) return x;
  return norm_parts(t, c, name, x,
                    c.norms.qk == QkNorm::kShared ? c.attention.head_dim : x.shape().cols(),
                    c.norms.qk == QkNorm::kTogether ? 1 : heads);
}

Array rotate(const TransformerConfig& c, Array x, Array angles, int32_t heads) {
  return angles ? rope(x, angles, {heads, c.positions.rope.dims, c.positions.interleaved}) : x;
}

// Frequency divisors of RoPE: those of Llama 3.1 (which GGUF converters write to the file), or the
// short and long factors of LongRoPE.
struct Divisors {
  Array usual, extended;
};
Divisors divisors(Trace& t, const TransformerConfig& c) {
  const int64_t pairs = c.positions.rope.dims / 2;
  if (t.has_weight("rope_freqs")) return {t.vector("rope_freqs", pairs), {}};
  if (!t.has_weight("rope_factors_short")) return {};
  return {t.vector("rope_factors_short", pairs), t.vector("rope_factors_long", pairs)};
}

LayerAngles layer_angles(Trace& t, const TransformerConfig& c, AnglesAttr attr,
                         const Divisors& divisors) {
  LayerAngles result;
  const Array is_extended = divisors.extended ? t.is_extended() : Array{};
  const auto angles = [&] {
    return rope_angles(t.positions(), attr, divisors.usual, divisors.extended, is_extended);
  };
  if (attr.temperature > 0 && c.long_context) result.query = angles();
  attr.temperature = 0;
  result.key = angles();
  if (!result.query) result.query = result.key;
  return result;
}

Angles angles(Trace& t, const TransformerConfig& c) {
  if (c.positions.rope.dims == 0) return {};
  Angles result;
  result.global = layer_angles(t, c, c.positions.rope, divisors(t, c));
  const bool same = c.attention.window == 0 || c.attention.local.empty() ||
                    c.positions.local_rope == c.positions.rope;
  result.local = same ? result.global : layer_angles(t, c, c.positions.local_rope, {});
  std::map<double, LayerAngles> by_theta;
  for (const double theta : c.positions.thetas) {
    LayerAngles& own = by_theta[theta];
    AnglesAttr attr = c.positions.rope;
    attr.theta = theta;
    if (theta > 0 && !own.key) own = layer_angles(t, c, attr, divisors(t, c));
    result.layers.push_back(own);
  }
  return result;
}

Array input(Trace& t, const TransformerConfig& c, Array embedding) {
  Array x = embed(t.tokens(), embedding, c.input.scale);
  if (c.input.token_types > 0)
    x = x + embed(t.token_types(), t.weight("token_types", {c.input.token_types, c.dim}));
  if (c.positions.kind == Positions::kTable)
    x = x + embed(t.positions(), t.weight("position_embd", {c.context, c.dim}));
  return t.has_weight("token_embd_norm") ? norm(t, c, "token_embd_norm", x) : x;
}

Array output_head(Trace& t, const TransformerConfig& c, Array x, Array embedding) {
  const Array head = c.output.tied ? embedding : t.weight("output", {c.vocab, c.dim});
  // High precision: quantising this row would cause a quarter of the squared error of all quantised
  // activations. It costs little, since decoding is limited by the bandwidth of the head's weights
  // and a prefill needs logits of one row only.
  const Array bias = t.has_bias("output") ? t.bias("output", c.vocab) : Array{};
  Array logits = linear(x, head, bias, Precision::kHigh);
  if (c.output.scale != 1) logits = scale(logits, c.output.scale);
  if (c.output.softcap > 0) logits = softcap(logits, c.output.softcap);
  return t.name("logits", logits);
}

}  // namespace

Array project(Trace& t, const std::string& name, Array x, int64_t out, Precision precision) {
  const Array w = t.weight(name, {out, x.shape().cols()});
  return linear(x, w, t.has_bias(name) ? t.bias(name, out) : Array{}, precision);
}

Array norm(Trace& t, const TransformerConfig& c, const std::string& name, Array x) {
  return norm_parts(t, c, name, x, x.shape().cols(), 1);
}

Mask mask_of(const TransformerConfig& c, int32_t window) {
  return c.attention.mask == Mask::kCausal ? Mask::kCausal
         : window > 0                      ? Mask::kSymmetric
                                           : Mask::kFull;
}

Array attention(Trace& t, const TransformerConfig& c, Array h, const LayerAngles& angles,
                int32_t window) {
  const int64_t q_dim = int64_t{c.attention.heads} * c.attention.head_dim;
  const int64_t kv_dim = int64_t{c.attention.kv_heads} * c.attention.head_dim;
  Array q = project(t, "attn_q", h, q_dim);
  Array k = scaled(project(t, "attn_k", h, kv_dim), c.multipliers.keys);
  const Array v = project(t, "attn_v", h, kv_dim);
  const bool rotated = static_cast<bool>(angles.key);
  const auto placed = [&](const char* name, Array x, Array turn, int32_t heads) {
    if (c.norms.qk_after_rope)
      return norm_heads(t, c, name, rotate(c, x, turn, heads), heads, rotated);
    return rotate(c, norm_heads(t, c, name, x, heads, rotated), turn, heads);
  };
  q = placed("attn_q_norm", q, angles.query, c.attention.heads);
  if (!rotated && c.positions.unrotated_period > 0)
    q = position_scale(q, t.positions(),
                       {.weight = c.positions.unrotated_temperature,
                        .period = static_cast<double>(c.positions.unrotated_period),
                        .shift = 1});
  k = placed("attn_k_norm", k, angles.key, c.attention.kv_heads);
  const Array keys = t.cached("attn.k", k, {StateKind::kKeys, c.attention.kv_heads, window});
  const Array values = t.cached("attn.v", v, {StateKind::kValues, c.attention.kv_heads, window});
  const Array out =
      attend(t.name("attn.q", q), keys, values,
             {.heads = c.attention.heads,
              .kv_heads = c.attention.kv_heads,
              .scale = c.attention.scale,
              .window = window,
              .chunked = c.attention.chunked,
              .softcap = c.attention.softcap,
              .alibi = c.positions.alibi,
              .mask = mask_of(c, window)},
             t.has_weight("attn_sinks") ? t.vector("attn_sinks", c.attention.heads) : Array{});
  if (!t.has_weight("attn_gate")) return t.name("attn.out", out);
  const int64_t gates = c.attention.gated_heads ? c.attention.heads : q_dim;
  const Array gate = activate(project(t, "attn_gate", h, gates), Activation::kSigmoid);
  return t.name("attn.out", c.attention.gated_heads ? out * gate : gate * out);
}

Array attention_block(Trace& t, const TransformerConfig& c, Array h, const Angles& angles,
                      int32_t layer) {
  const bool local = c.is_local(layer);
  const LayerAngles& own = !angles.layers.empty() ? angles.layers[static_cast<size_t>(layer)]
                           : local                ? angles.local
                                                  : angles.global;
  h = attention(t, c, h, c.is_rotated(layer) ? own : LayerAngles{}, local ? c.attention.window : 0);
  if (t.has_weight("attn_sub_norm")) h = norm(t, c, "attn_sub_norm", h);
  return project(t, "attn_output", h, c.dim);
}

Array decoder(Trace& t, const TransformerConfig& c, const Layer& layer,
              const std::function<void(Array)>& before) {
  const Array embedding = t.weight("token_embd", {c.vocab, c.dim});
  const Angles rope = angles(t, c);
  Array x = t.name("embedding", input(t, c, embedding));
  if (before) before(x);
  t.blocks(c.layers, [&](int32_t i) { x = t.name("out", layer(x, rope, i)); });
  return t.output(norm(t, c, "output_norm", t.select_outputs(x)),
                  [&](Array hidden) { return output_head(t, c, hidden, embedding); });
}

MtpRows mtp_rows(Trace& t, const TransformerConfig& c) {
  const Array embedding = t.weight("token_embd", {c.vocab, c.dim});
  const Angles rope = angles(t, c);
  const Array token = input(t, c, embedding), before = t.features(c.dim);
  const char* const kLast = "nextn.shared_head_norm";
  Array x;
  bool own_norm = false;
  t.block_at(c.layers, [&] {
    x = concat(norm(t, c, "nextn.enorm", token), norm(t, c, "nextn.hnorm", before));
    x = project(t, "nextn.eh_proj", x, c.dim);
    x = x + attention_block(t, c, norm(t, c, "attn_norm", x), rope, c.layers);
    x = t.select_outputs(x);
    x = x + feed_forward(t, c, norm(t, c, "ffn_norm", x));
    own_norm = t.has_weight(kLast);
    if (own_norm) x = norm(t, c, kLast, x);
  });
  if (!own_norm) x = norm(t, c, "output_norm", x);
  return {x, output_head(t, c, x, embedding)};
}

Array encoder(Trace& t, const TransformerConfig& c, const Layer& layer) {
  const Angles rope = angles(t, c);
  Array x = t.name("embedding", input(t, c, t.weight("token_embd", {c.vocab, c.dim})));
  t.blocks(c.layers, [&](int32_t i) { x = t.name("out", layer(x, rope, i)); });
  if (t.has_weight("output_norm")) x = norm(t, c, "output_norm", x);
  return t.name("hidden", x);
}

}  // namespace veery
