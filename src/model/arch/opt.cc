// opt.cc: OPT (Zhang et al., 2022): layer norms with biases, a table of positions, ReLU.
#include "model/arch/arch.h"
#include "model/layers.h"

namespace veery {

Array opt(Trace& t, const TransformerConfig& c) { return plain_decoder(t, c); }

void complete_opt_gguf(TransformerConfig& c, const Metadata&) { c.activation = Activation::kRelu; }

}  // namespace veery
