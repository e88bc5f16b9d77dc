// recurrent.h: the mixers of recurrent layers. Each takes the normalised input h [rows, dim] of a
// layer and returns [rows, dim]. Sizes are those of c.recurrent.
#pragma once
#include "model/config.h"
#include "model/trace.h"

namespace veery {

/// Gated DeltaNet (Yang et al., arXiv:2412.06464).
Array gated_delta_block(Trace& t, const TransformerConfig& c, Array h);
/// Kimi Delta Attention (Kimi Team, arXiv:2510.26692).
Array kda_block(Trace& t, const TransformerConfig& c, Array h);
/// Mamba (Gu and Dao, arXiv:2312.00752).
Array mamba1_block(Trace& t, const TransformerConfig& c, Array h);
/// Mamba-2 (Dao and Gu, arXiv:2405.21060).
Array mamba2_block(Trace& t, const TransformerConfig& c, Array h);
/// The gated short convolution of LFM2 (Liquid AI, arXiv:2511.23404).
Array short_conv_block(Trace& t, const TransformerConfig& c, Array h);
/// mLSTM (Beck et al., arXiv:2405.04517, as in arXiv:2503.13427).
Array mlstm_block(Trace& t, const TransformerConfig& c, Array h);

}  // namespace veery
