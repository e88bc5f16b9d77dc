// gpt.cc: decoders with layer norms, biases and mostly ungated feed-forward layers.
// - GPT-2 (Radford et al., 2019): learned positions.
// - GPT-NeoX and Pythia (Black et al., arXiv:2204.06745): partial RoPE, parallel parts with a norm
//   each.
// - GPT-J (Wang and Komatsuzaki, 2021): RoPE on adjacent elements, parallel parts with one norm.
// - StarCoder 2 (Lozhkov et al., arXiv:2402.19173): sliding window.
// - Phi-1 and Phi-2 (Gunasekar et al., arXiv:2306.11644): parallel parts with one norm.
// - StableLM (Bellagente et al., arXiv:2402.17834): gated feed-forward layers as in Llama.
// - OPT (Zhang et al., arXiv:2205.01068): learned positions, ReLU.
// - BLOOM (BigScience, 2022): ALiBi, a norm after the embedding. MPT (MosaicML, 2023): ALiBi, no
//   biases.
#include "base/error.h"
#include "model/arch/arch.h"
#include "model/layers.h"
#include "model/number_ranges.h"

namespace veery {
namespace {

// Parts in sequence, with a norm before each.
Array sequential(Trace& t, const TransformerConfig& c) {
  return decoder(t, c, [&](Array x, const Angles& angles, int32_t layer) {
    x = x + attention_block(t, c, norm(t, c, "attn_norm", x), angles, layer);
    return x + dense_feed_forward(t, c, norm(t, c, "ffn_norm", x));
  });
}

// Parts in parallel after one norm.
Array parallel(Trace& t, const TransformerConfig& c) {
  return decoder(t, c, [&](Array x, const Angles& angles, int32_t layer) {
    const Array h = norm(t, c, "attn_norm", x);
    x = x + attention_block(t, c, h, angles, layer);
    return x + dense_feed_forward(t, c, h);
  });
}

// Parts in parallel, with a norm before each.
Array parallel_with_own_norms(Trace& t, const TransformerConfig& c) {
  return decoder(t, c, [&](Array x, const Angles& angles, int32_t layer) {
    const Array h = attention_block(t, c, norm(t, c, "attn_norm", x), angles, layer);
    const Array f = dense_feed_forward(t, c, norm(t, c, "ffn_norm", x));
    return x + h + f;
  });
}

}  // namespace

Array gpt2(Trace& t, const TransformerConfig& c) { return sequential(t, c); }
Array bloom(Trace& t, const TransformerConfig& c) { return sequential(t, c); }
Array opt(Trace& t, const TransformerConfig& c) { return sequential(t, c); }
Array starcoder2(Trace& t, const TransformerConfig& c) { return sequential(t, c); }
Array gptj(Trace& t, const TransformerConfig& c) { return parallel(t, c); }
Array phi2(Trace& t, const TransformerConfig& c) { return parallel(t, c); }
Array gptneox(Trace& t, const TransformerConfig& c) {
  return c.residual.parallel ? parallel_with_own_norms(t, c) : sequential(t, c);
}
Array stablelm(Trace& t, const TransformerConfig& c) {
  return c.residual.parallel ? parallel(t, c) : sequential(t, c);
}

void complete_mpt_gguf(TransformerConfig& c, const Metadata& metadata) {
  constexpr const char* kMost = "mpt.attention.max_alibi_bias";
  if (metadata.number(kMost) == 0)
    throw Error(ErrorKind::kUnsupported,
                "metadata: {} is 0: MPT models with learned positions are not supported", kMost);
  const auto most = checked_number(metadata, kMost);
  if (!most) throw Error(ErrorKind::kUnsupported, "metadata: {} is missing", kMost);
  c.positions.alibi = static_cast<float>(*most);
}

}  // namespace veery
