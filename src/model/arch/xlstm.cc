// xLSTM (Beck et al., arXiv:2405.04517) as in its 7B model (arXiv:2503.13427): blocks of mLSTM and
// gated feed-forward parts, each behind a norm.
#include "model/arch/arch.h"
#include "model/layers.h"

namespace veery {

Array xlstm(Trace& t, const TransformerConfig& c) { return plain_decoder(t, c); }

// Files hold a head whatever they say of ties.
void complete_xlstm(TransformerConfig& c) { c.tied = false; }

}  // namespace veery
