// expert_tensors.h: the weights of experts, which containers keep in different ways.
#pragma once
#include "file/model_file.h"

namespace veery {

/// Brings the experts of all layers into one form, that of GGUF: ffn_gate_exps, ffn_up_exps and
/// ffn_down_exps with the experts as the first dimension. One tensor an expert
/// ("blk.0.ffn_gate.3.weight") becomes part of one of them; a joint ffn_gate_up_exps becomes two.
/// Tensors must have our names. Throws kFormat naming a tensor that is missing or does not fit.
void gather_experts(ModelFile& file, std::string_view architecture);

}  // namespace veery
