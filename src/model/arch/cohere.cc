// cohere.cc: Command R (Cohere, 2024) and Command R7B, A, Aya (Cohere 2): one layer norm without
// bias for attention and feed-forward part, which are added up; pairs of RoPE are neighbours.
// Cohere 2 turns local layers only.
#include "model/arch/arch.h"
#include "model/layers.h"

namespace veery {

Array cohere(Trace& t, const TransformerConfig& c) { return parallel_decoder(t, c); }

void complete_cohere(TransformerConfig& c) {
  c.norm = Norm::kLayer;
  c.head_norm = HeadNorm::kOwn;
  c.rope_interleaved = true;
}

void complete_cohere2(TransformerConfig& c) {
  complete_cohere(c);
  for (int32_t layer = 0; layer < c.layers; ++layer) c.unrotated.push_back(!c.is_local(layer));
}

}  // namespace veery
