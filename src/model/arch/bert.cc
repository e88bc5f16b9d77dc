// bert.cc: encoders.
// - BERT (Devlin et al., arXiv:1810.04805), RoBERTa and XLM-R (Conneau et al., arXiv:1911.02116):
//   post-norm.
// - Nomic BERT (Nussbaum et al., arXiv:2402.01613): RoPE and gated feed-forward layers.
// - Jina BERT v2 (Guenther et al., arXiv:2310.19923): ALiBi and gated feed-forward layers.
// - ModernBERT (Warner et al., arXiv:2412.13663): pre-norm except in the first layer, local layers.
#include "model/arch/arch.h"
#include "model/layers.h"
#include "model/number_ranges.h"

namespace veery {

Array bert(Trace& t, const TransformerConfig& c) {
  return encoder(t, c, [&](Array x, const Angles& angles, int32_t layer) {
    x = norm(t, c, "attn_output_norm", x + attention_block(t, c, x, angles, layer));
    return norm(t, c, "layer_output_norm", x + feed_forward(t, c, x));
  });
}

Array modern_bert(Trace& t, const TransformerConfig& c) {
  return encoder(t, c, [&](Array x, const Angles& angles, int32_t layer) {
    const Array h = layer == 0 ? x : norm(t, c, "attn_norm", x);
    x = x + attention_block(t, c, h, angles, layer);
    return x + feed_forward(t, c, norm(t, c, "ffn_norm", x));
  });
}

// The key counts all positions visible in a local layer, on both sides.
void complete_modern_bert_gguf(TransformerConfig& c, const Metadata& metadata) {
  c.attention.window /= 2;
  c.positions.local_rope.theta =
      checked_number(metadata, "modern-bert.rope.freq_base_swa").value_or(10000);
  if (metadata.text("modern-bert.hidden_activation") == "silu")
    c.feed_forward.activation = Activation::kSilu;
  // The key is a list with one flag per layer, or the period of global layers starting at layer 0.
  const std::string pattern = "modern-bert.attention.sliding_window_pattern";
  if (metadata.integers(pattern) != nullptr) return;
  const int64_t period = metadata.integer(pattern).value_or(3);
  for (int64_t i = 0; i < std::ssize(c.attention.local); ++i)
    c.attention.local[static_cast<size_t>(i)] = period > 0 && i % period != 0;
}

}  // namespace veery
