// deepseek.cc: models with multi-head latent attention (MLA).
// - DeepSeek V2 and V3 (DeepSeek-AI, arXiv:2405.04434, arXiv:2412.19437), Kimi K2 and GLM 4.7
//   Flash: grouped expert selection.
// - Kimi Linear (Kimi Team, arXiv:2510.26692): Kimi Delta Attention, and every few layers MLA
//   without RoPE.
// - Mistral 4 (Mistral AI, 2026): query temperature, experts without a bias correction.
// - DeepSeek V3.2 (DeepSeek-V3.2-Exp, 2025) and GLM 5 (2026): sparse attention with the lightning
//   indexer.
#include <cmath>

#include "base/error.h"
#include "model/arch/arch.h"
#include "model/layers.h"
#include "model/number_ranges.h"
#include "model/recurrent.h"

namespace veery {
namespace {

// The norm of a compressed vector.
Array latent_norm(Trace& t, const TransformerConfig& c, const char* name, Array x) {
  return rms_norm(x, t.vector(name, x.shape().cols()), c.latent.norm_eps);
}

// Multiplies queries by the temperature of their positions, if the model has one.
Array with_temperature(Trace& t, const TransformerConfig& c, Array q) {
  const AnglesAttr& rope = c.positions.rope;
  if (rope.temperature == 0 || !c.long_context) return q;
  return position_scale(q, t.positions(), {rope.temperature, rope.original_context});
}

// Returns the compressed queries; empty if queries are projected from the input directly.
Array compressed_queries(Trace& t, const TransformerConfig& c, Array h) {
  const int32_t rank = c.latent.query_rank;
  if (rank == 0) return {};
  return latent_norm(t, c, "attn_q_a_norm", project(t, "attn_q_a", h, rank));
}

Array queries(Trace& t, const TransformerConfig& c, Array h, Array compressed,
              const LayerAngles& angles) {
  const LatentConfig& l = c.latent;
  const int64_t size = int64_t{c.attention.heads} * (l.plain + l.turned);
  const Array q =
      compressed ? project(t, "attn_q_b", compressed, size) : project(t, "attn_q", h, size);
  if (!angles.key) return q;
  return rope(q, angles.key,
              {.heads = c.attention.heads,
               .dims = l.turned,
               .interleaved = c.positions.interleaved,
               .begin = l.plain});
}

// Returns the cache entry of a position: the compressed vector and the RoPE part of the key, which
// all heads share.
Array latent(Trace& t, const TransformerConfig& c, Array h, const LayerAngles& angles) {
  const LatentConfig& l = c.latent;
  const Array joint = project(t, "attn_kv_a_mqa", h, l.rank + l.turned);
  const Array shared = columns(joint, l.rank, l.turned);
  return concat(latent_norm(t, c, "attn_kv_a_norm", columns(joint, 0, l.rank)),
                angles.key ? rope(shared, angles.key,
                                  {.dims = l.turned, .interleaved = c.positions.interleaved})
                           : shared);
}

// The lightning indexer: returns the positions that each row attends to. All of its heads score a
// position by the same key.
Array choose(Trace& t, const TransformerConfig& c, Array h, Array compressed,
             const LayerAngles& angles) {
  constexpr float kNormEps = 1e-6F;
  const IndexConfig& x = c.index;
  const RopeAttr turned{.dims = c.latent.turned, .interleaved = x.interleaved};
  RopeAttr turned_heads = turned;
  turned_heads.heads = x.heads;
  const Array q = rope(project(t, "indexer.attn_q_b", compressed, int64_t{x.heads} * x.head_dim),
                       angles.key, turned_heads);
  const Array k = layer_norm(project(t, "indexer.attn_k", h, x.head_dim),
                             t.vector("indexer.k_norm", x.head_dim),
                             t.bias("indexer.k_norm", x.head_dim), kNormEps);
  const Array keys = t.cached("index.k", rope(k, angles.key, turned), {.kv_heads = 1});
  const double size = static_cast<double>(x.heads) * x.head_dim;
  return choose_positions(
      q, project(t, "indexer.proj", h, x.heads), keys,
      {.heads = x.heads, .used = x.used, .scale = static_cast<float>(1 / std::sqrt(size))});
}

// Computes MLA in the compressed space ("absorbed" form): attn_k_b maps queries to the space of the
// cache, and attn_v_b maps the attention output back, so that keys and values of heads are never
// materialised. `chosen`: the selection of the previous layers; replaced if this layer has an
// indexer.
Array latent_attention(Trace& t, const TransformerConfig& c, Array h, const LayerAngles& angles,
                       Array& chosen) {
  const LatentConfig& l = c.latent;
  const Array compressed = compressed_queries(t, c, h);
  if (c.sparse && c.index.layers[static_cast<size_t>(t.layer())])
    chosen = choose(t, c, h, compressed, angles);
  const Array q =
      head_linear(queries(t, c, h, compressed, angles),
                  t.stack("attn_k_b", {c.attention.heads, l.rank, l.plain}), c.attention.heads);
  const Array kept = t.cached("attn.k", latent(t, c, h, angles), {.kv_heads = 1});
  const Array y = attend(
      t.name("attn.q", with_temperature(t, c, q)), kept, kept,
      {.heads = c.attention.heads, .kv_heads = 1, .scale = c.attention.scale, .shared = l.rank}, {},
      chosen);
  const Array out =
      head_linear(y, t.stack("attn_v_b", {c.attention.heads, l.value, l.rank}), c.attention.heads);
  return project(t, "attn_output", t.name("attn.out", out), c.dim);
}

}  // namespace

Array deepseek(Trace& t, const TransformerConfig& c) {
  Array chosen;
  return decoder(t, c, [&](Array x, const Angles& angles, int32_t) {
    const Array h = norm(t, c, "attn_norm", x);
    x = x + latent_attention(t, c, h, angles.global, chosen);
    return x + feed_forward(t, c, norm(t, c, "ffn_norm", x));
  });
}

Array kimi_linear(Trace& t, const TransformerConfig& c) {
  Array chosen;
  return decoder(t, c, [&](Array x, const Angles& angles, int32_t layer) {
    const Array h = norm(t, c, "attn_norm", x);
    x = x + (c.is_recurrent(layer) ? kda_block(t, c, h)
                                   : latent_attention(t, c, h, angles.global, chosen));
    return x + feed_forward(t, c, norm(t, c, "ffn_norm", x));
  });
}

// The attention scale follows from the uncompressed head size.
void complete_deepseek(TransformerConfig& c) {
  const LatentConfig& l = c.latent;
  if (l.rank == 0)
    throw Error(ErrorKind::kUnsupported, "{}: expected compressed keys and values", c.architecture);
  c.attention.scale = static_cast<float>(l.yarn_magnitude * l.yarn_magnitude /
                                         std::sqrt(static_cast<double>(l.plain + l.turned)));
}

// GLM's indexer applies RoPE to adjacent elements; GGUF has no key for it.
void complete_glm_dsa_gguf(TransformerConfig& c, const Metadata& metadata) {
  complete_deepseek_gguf(c, metadata);
  c.index.interleaved = true;
}

// The score of a group is the sum of its two best experts, also without sigmoid scores.
void complete_mistral4(TransformerConfig& c) {
  complete_deepseek(c);
  if (c.experts.route.groups > 1) c.experts.route.group_best = 2;
}

// The key yarn_log_multiplier is 0.1 mscale_all_dim. mscale has the same value, so the angles keep
// their magnitude.
void complete_deepseek_gguf(TransformerConfig& c, const Metadata& metadata) {
  c.latent.norm_eps =
      static_cast<float>(checked_number(metadata, c.architecture + ".attention.latent_rms_epsilon")
                             .value_or(c.norms.eps));
  const std::string period = c.architecture + ".attention.temperature_length";
  const double length =
      checked_number(metadata, period).value_or(c.positions.rope.original_context);
  if (c.positions.rope.temperature != 0 && length != c.positions.rope.original_context)
    throw Error(ErrorKind::kUnsupported, "metadata: {} is {}, expected the original context, {}",
                period, length, c.positions.rope.original_context);
  const double weight =
      checked_number(metadata, c.architecture + ".rope.scaling.yarn_log_multiplier").value_or(0);
  if (c.positions.rope.scaling != RopeScaling::kYarn || weight == 0) return;
  c.latent.yarn_magnitude = yarn_magnitude(c.positions.rope.factor, 10 * weight);
  c.positions.rope.attention_factor = 1;
  c.positions.local_rope = c.positions.rope;
}

}  // namespace veery
