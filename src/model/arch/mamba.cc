// Mamba-2 (Dao and Gu, arXiv:2405.21060): recurrent layers alone, without feed-forward parts.
#include "model/arch/arch.h"
#include "model/layers.h"

namespace veery {

Array mamba2(Trace& t, const TransformerConfig& c) { return recurrent_decoder(t, c); }

}  // namespace veery
