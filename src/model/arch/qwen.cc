// qwen.cc: Qwen 2 and 2.5 (Qwen Team, 2024): biases on Q, K and V; Qwen 3 (2025): norms of heads in
// their place; both also with experts. Dots 1, GLM 4.5 and Ling 2.0 (Ling Team, arXiv:2510.22115)
// are the same with experts of DeepSeek V3, and so are MiniMax M2 (2025), with norms over all
// heads, and Exaone MoE (LG AI Research, 2025), which turns local layers only. All are found by the
// weights that the file has.
#include "model/arch/arch.h"
#include "model/layers.h"

namespace veery {

Array qwen(Trace& t, const TransformerConfig& c) { return plain_decoder(t, c); }

// Gates are sigmoids that add up to 1, whatever the file says.
void complete_minimax_gguf(TransformerConfig& c, const Metadata&) {
  c.experts.route.sigmoid = c.experts.route.normalise = true;
}

}  // namespace veery
