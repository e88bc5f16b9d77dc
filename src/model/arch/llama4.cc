// llama4.cc: Llama 4, text only (Meta, 2025): layers with chunked attention alternate with global
// layers without RoPE (NoPE) that have a query temperature. Router weights scale the input of
// experts, and one shared expert processes every token.
#include "model/arch/arch.h"
#include "model/layers.h"
#include "model/number_ranges.h"

namespace veery {

Array llama4(Trace& t, const TransformerConfig& c) {
  return decoder(t, c, [&](Array x, const Angles& angles, int32_t layer) {
    x = x + attention_block(t, c, norm(t, c, "attn_norm", x), angles, layer);
    return x + feed_forward(t, c, norm(t, c, "ffn_norm", x));
  });
}

void complete_llama4(TransformerConfig& c) {
  c.experts.route.sigmoid = true;
  c.experts.moe.gate_input = true;
}

// GGUF files usually lack these hyperparameters. The largest model has no QK norm.
void complete_llama4_gguf(TransformerConfig& c, const Metadata& metadata) {
  constexpr int32_t kMostExperts = 128;
  c.norms.qk = c.experts.count == kMostExperts ? QkNorm::kShared : QkNorm::kUnweighted;
  if (metadata.integer("llama4.attention.sliding_window") == 0) return;
  c.attention.chunked = true;
  if (c.attention.window == 0) {
    c.attention.window = 8192;
    c.attention.local = local_pattern(c.layers, 4);
  }
  c.positions.unrotated = c.attention.local;
  c.positions.unrotated.flip();
  c.positions.unrotated_period = static_cast<int32_t>(
      checked_number(metadata, "llama4.attention.temperature_length").value_or(8192));
  c.positions.unrotated_temperature =
      checked_number(metadata, "llama4.attention.temperature_scale").value_or(0.1);
}

}  // namespace veery
