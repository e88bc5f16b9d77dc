// gpt.cc: decoders with layer norms, biases and mostly ungated feed-forward layers.
// - GPT-2 (Radford et al., 2019): learned positions.
// - GPT-NeoX and Pythia (Black et al., arXiv:2204.06745): partial RoPE, parallel parts with a norm
//   each.
// - GPT-J (Wang and Komatsuzaki, 2021): RoPE on adjacent elements, parallel parts with one norm.
// - StarCoder 2 (Lozhkov et al., arXiv:2402.19173): sliding window.
// - Phi-1 and Phi-2 (Gunasekar et al., arXiv:2306.11644): parallel parts with one norm.
// - StableLM (Bellagente et al., arXiv:2402.17834): gated feed-forward layers as in Llama.
// - OPT (Zhang et al., arXiv:2205.01068): learned positions, ReLU.
#include "model/arch/arch.h"
#include "model/layers.h"

namespace veery {

Array gpt2(Trace& t, const TransformerConfig& c) { return plain_decoder(t, c); }

Array gptneox(Trace& t, const TransformerConfig& c) {
  if (!c.residual.parallel) return plain_decoder(t, c);
  return decoder(t, c, [&](Array x, const Angles& angles, int32_t layer) {
    const Array h = attention_block(t, c, norm(t, c, "attn_norm", x), angles, layer);
    const Array f = feed_forward(t, c, norm(t, c, "ffn_norm", x));
    return x + h + f;
  });
}

Array starcoder2(Trace& t, const TransformerConfig& c) { return plain_decoder(t, c); }

Array stablelm(Trace& t, const TransformerConfig& c) {
  return c.residual.parallel ? parallel_decoder(t, c) : plain_decoder(t, c);
}

Array opt(Trace& t, const TransformerConfig& c) { return plain_decoder(t, c); }

Array phi2(Trace& t, const TransformerConfig& c) { return parallel_decoder(t, c); }

void complete_opt_gguf(TransformerConfig& c, const Metadata&) {
  c.feed_forward.activation = Activation::kRelu;
}

void complete_stablelm(TransformerConfig& c) {
  c.norms.kind = Norm::kLayer;
  c.norms.qk = QkNorm::kOwn;
}

void complete_gpt(TransformerConfig& c) {
  c.norms.kind = Norm::kLayer;
  c.feed_forward.gated = false;
}

void complete_gptj(TransformerConfig& c) {
  complete_gpt(c);
  c.positions.interleaved = true;
}

void complete_gpt_gguf(TransformerConfig& c, const Metadata&) {
  c.feed_forward.activation = Activation::kGelu;
}

void complete_gptneox_gguf(TransformerConfig& c, const Metadata&) {
  c.feed_forward.activation = Activation::kGeluErf;
}

}  // namespace veery
