// olmo2.cc: OLMo (Groeneveld et al., 2024), llama with norms without weights. OLMo 2 and 3 (Walsh
// et al., 2024; Olmo Team, 2025): norms behind each part and none before it, norms over all heads
// of q and of k; OLMo 3 has local layers without scaled RoPE. OLMoE (Muennighoff et al., 2024) has
// norms before its parts, and experts. Exaone 4 (LG AI Research, 2025) has a norm for each head,
// and where it has local layers turns only those.
#include "model/arch/arch.h"
#include "model/layers.h"
#include "model/number_ranges.h"

namespace veery {

Array olmo2(Trace& t, const TransformerConfig& c) {
  return decoder(t, c, [&](Array x, const Angles& angles, int32_t layer) {
    x = x + norm(t, c, "post_attention_norm", attention_block(t, c, x, angles, layer));
    return x + norm(t, c, "post_ffw_norm", feed_forward(t, c, x));
  });
}

Array olmoe(Trace& t, const TransformerConfig& c) { return plain_decoder(t, c); }

void complete_olmo(TransformerConfig& c) { c.norm = Norm::kPlainLayer; }

void complete_olmo2(TransformerConfig& c) { c.head_norm = HeadNorm::kTogether; }

void complete_exaone4(TransformerConfig& c) {
  if (c.window == 0) return;
  for (int32_t layer = 0; layer < c.layers; ++layer) c.unrotated.push_back(!c.is_local(layer));
}

void complete_olmo2_gguf(TransformerConfig& c, const Metadata& metadata) {
  if (c.window == 0) return;
  const double theta = checked_number(metadata, "olmo2.rope.freq_base_swa").value_or(c.rope.theta);
  c.local_rope = {.dims = c.rope.dims, .theta = theta};
}

}  // namespace veery
