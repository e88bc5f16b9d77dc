// LFM2 (Liquid AI, arXiv:2511.23404): gated short convolutions, every few layers attention; also
// with experts. Both kinds of layers are found by the configuration.
#include "model/arch/arch.h"
#include "model/layers.h"

namespace veery {

Array lfm2(Trace& t, const TransformerConfig& c) { return plain_decoder(t, c); }

// Experts are chosen by corrected sigmoids.
void complete_lfm2_moe(TransformerConfig& c) { c.experts.route.sigmoid = true; }

}  // namespace veery
