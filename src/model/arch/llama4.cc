// llama4.cc: Llama 4, text (Meta, 2025): layers that see a chunk of the text, and layers that see
// all of it without RoPE and with a temperature; experts of which a gate scales the input, and one
// that every row has.
#include "model/arch/arch.h"
#include "model/layers.h"
#include "model/number_ranges.h"

namespace veery {

Array llama4(Trace& t, const TransformerConfig& c) { return plain_decoder(t, c); }

void complete_llama4(TransformerConfig& c) {
  c.rope_interleaved = true;
  c.experts.route.sigmoid = true;
  c.experts.moe.gate_input = true;
}

// GGUF mostly has none of these numbers. The largest model has no norms of heads.
void complete_llama4_gguf(TransformerConfig& c, const Metadata& metadata) {
  constexpr int32_t kMostExperts = 128;
  c.head_norm = c.experts.count == kMostExperts ? HeadNorm::kShared : HeadNorm::kUnweighted;
  if (metadata.integer("llama4.attention.sliding_window") == 0) return;
  c.chunked = true;
  if (c.window == 0) {
    c.window = 8192;
    c.local = local_pattern(c.layers, 4);
  }
  c.unrotated = c.local;
  c.unrotated.flip();
  c.unrotated_period = static_cast<int32_t>(
      checked_number(metadata, "llama4.attention.temperature_length").value_or(8192));
  c.unrotated_temperature =
      checked_number(metadata, "llama4.attention.temperature_scale").value_or(0.1);
}

}  // namespace veery
