// qwen.cc: Qwen and related models. weight_rules.cc lists the parts that some of them lack.
// - Qwen 2 and 2.5 (Qwen Team, arXiv:2407.10671, arXiv:2412.15115): biases on q, k and v; some with
//   experts.
// - Qwen 3 (Qwen Team, arXiv:2505.09388): QK norm instead; some with experts. Qwen3-Next and Qwen
//   3.5: gated DeltaNet layers and gated attention.
// - Dots 1, GLM 4.5, Ling 2.0 (Ling Team, arXiv:2510.22115): Qwen 3 with the experts of DeepSeek
//   V3.
// - MiniMax M2 (2025): the same with QK norm over all heads. Exaone MoE (LG AI Research, 2025):
//   RoPE in local layers only.
#include "model/arch/arch.h"
#include "model/layers.h"
#include "model/recurrent.h"

namespace veery {

Array qwen(Trace& t, const TransformerConfig& c) {
  return decoder(t, c, [&](Array x, const Angles& angles, int32_t layer) {
    x = x + attention_block(t, c, norm(t, c, "attn_norm", x), angles, layer);
    return x + feed_forward(t, c, norm(t, c, "ffn_norm", x));
  });
}

// Every few layers attention with an output gate, otherwise gated DeltaNet.
Array qwen3_next(Trace& t, const TransformerConfig& c) {
  return decoder(t, c, [&](Array x, const Angles& angles, int32_t layer) {
    const Array h = norm(t, c, "attn_norm", x);
    x = x + (c.is_recurrent(layer) ? gated_delta_block(t, c, h)
                                   : attention_block(t, c, h, angles, layer));
    return x + feed_forward(t, c, norm(t, c, "ffn_norm", x));
  });
}

// Expert weights are sigmoids normalised to sum 1, whatever the file says.
void complete_minimax_gguf(TransformerConfig& c, const Metadata&) {
  c.experts.route.sigmoid = c.experts.route.normalise = true;
}

}  // namespace veery
