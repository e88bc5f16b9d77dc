// cohere.cc: Command R (Cohere, 2024) and Command R7B, A, Aya (Cohere 2): one layer norm without
// bias for attention and feed-forward part, which are added up; pairs of RoPE are neighbours.
// Cohere 2 turns local layers only. Its mixtures (2026) turn dense layers too, which come first;
// what shared and chosen experts give is averaged; some have RMS norms.
#include "model/arch/arch.h"
#include "model/layers.h"
#include "model/number_ranges.h"

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

// The kind of norms is the file's.
void complete_cohere_moe(TransformerConfig& c) { c.rope_interleaved = true; }

// llama.cpp always averages; where the sum is taken as it is, a key of our own says so.
void complete_cohere_moe_gguf(TransformerConfig& c, const Metadata& metadata) {
  const auto number = [&](const char* key) {
    return checked_number(metadata, c.architecture + key);
  };
  if (!number(".attention.layer_norm_rms_epsilon")) c.norm = Norm::kLayer;
  const bool shared = c.experts.shared_hidden > 0;
  c.experts.scale = static_cast<float>(number(".expert_sum_scale").value_or(shared ? 0.5 : 1));
  if (!c.experts.route.sigmoid) c.experts.route.normalise = true;
  const int64_t dense = metadata.integer(c.architecture + ".leading_dense_block_count").value_or(0);
  for (int32_t layer = 0; layer < c.layers; ++layer)
    c.unrotated.push_back(!c.is_local(layer) && layer >= dense);
}

}  // namespace veery
