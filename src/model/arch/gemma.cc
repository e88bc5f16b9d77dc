// gemma.cc: Gemma 1 to 3, text only, and related models.
// - Gemma (Gemma Team, arXiv:2403.08295): embedding scaled by sqrt(dim), GeGLU.
// - Gemma 2 (arXiv:2408.00118): norms before and after each part, soft caps, alternating local
//   layers.
// - Gemma 3 (arXiv:2503.19786): QK norm instead of soft caps.
// - GLM 4 (Zhipu AI, 2025): norms as in Gemma 2.
// - AFMoE (Arcee AI, 2025): norms as in Gemma 2, gated attention, RoPE in local layers only.
#include <cmath>

#include "model/arch/arch.h"
#include "model/layers.h"
#include "model/number_ranges.h"

namespace veery {
namespace {

// The largest model of each family scales scores by dim / heads instead of the head size.
void scale_by_share(TransformerConfig& c, const Metadata& metadata) {
  if (!metadata.number(c.architecture + ".attention.scale"))
    c.attention.scale =
        static_cast<float>(1 / std::sqrt(static_cast<double>(c.dim / c.attention.heads)));
}

}  // namespace

Array gemma(Trace& t, const TransformerConfig& c) {
  return decoder(t, c, [&](Array x, const Angles& angles, int32_t layer) {
    x = x + attention_block(t, c, norm(t, c, "attn_norm", x), angles, layer);
    return x + dense_feed_forward(t, c, norm(t, c, "ffn_norm", x));
  });
}

Array gemma2(Trace& t, const TransformerConfig& c) {
  return decoder(t, c, [&](Array x, const Angles& angles, int32_t layer) {
    Array h = attention_block(t, c, norm(t, c, "attn_norm", x), angles, layer);
    x = x + norm(t, c, "post_attention_norm", h);
    h = feed_forward(t, c, norm(t, c, "ffn_norm", x));
    return x + norm(t, c, "post_ffw_norm", h);
  });
}
Array afmoe(Trace& t, const TransformerConfig& c) { return gemma2(t, c); }
Array gemma3(Trace& t, const TransformerConfig& c) { return gemma2(t, c); }

void complete_gemma(TransformerConfig& c) {
  c.input.scale = static_cast<float>(std::sqrt(static_cast<double>(c.dim)));
}

// GGUF has no key for the embedding scale, since all published models use sqrt(dim). veery writes a
// key of its own for other scales.
void complete_afmoe_gguf(TransformerConfig& c, const Metadata& metadata) {
  if (!metadata.number(c.architecture + ".embedding_scale")) complete_gemma(c);
  c.experts.route.sigmoid =
      metadata.integer(c.architecture + ".expert_gating_func").value_or(2) == 2;
}

void complete_gemma2_gguf(TransformerConfig& c, const Metadata& metadata) {
  if (c.layers == 46) scale_by_share(c, metadata);
}

void complete_gemma3_gguf(TransformerConfig& c, const Metadata& metadata) {
  if (!metadata.number(c.architecture + ".rope.freq_base")) c.positions.rope.theta = 1e6;
  const std::string local_base = c.architecture + ".rope.freq_base_swa";
  c.positions.local_rope = AnglesAttr{
      .dims = c.positions.rope.dims, .theta = checked_number(metadata, local_base).value_or(10000)};
  if (c.layers == 62) scale_by_share(c, metadata);
}

// EmbeddingGemma (Schechter Vera et al., arXiv:2509.20354): bidirectional attention. The window in
// files counts the positions on both sides.
void complete_gemma_embedding_gguf(TransformerConfig& c, const Metadata& metadata) {
  complete_gemma3_gguf(c, metadata);
  c.attention.mask = Mask::kFull;
  c.attention.window /= 2;
}

}  // namespace veery
