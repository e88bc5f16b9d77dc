// qwen.cc: Qwen 2 and 2.5 (Qwen Team, 2024): biases on Q, K and V; Qwen 3 (2025): norms of heads in
// their place; both also with experts. Dots 1 and GLM 4.5 (2025) are the same with experts of
// DeepSeek V3. All are found by the weights that the file has.
#include "model/arch/arch.h"
#include "model/layers.h"

namespace veery {

Array qwen(Trace& t, const TransformerConfig& c) { return plain_decoder(t, c); }

}  // namespace veery
