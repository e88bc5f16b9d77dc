// expert_tensors.h: converts the expert weights of all containers to one form.
#pragma once
#include "file/model_file.h"

namespace veery {

/// Converts the experts of all layers to GGUF's form: ffn_gate_exps, ffn_up_exps and ffn_down_exps
/// with the experts as the first dimension. Separate tensors per expert ("blk.0.ffn_gate.3.weight")
/// are stacked; a joint ffn_gate_up_exps is split. Tensors must already have GGUF names. Throws
/// kFormat naming a tensor that is missing or does not fit.
void gather_experts(ModelFile& file, std::string_view architecture);

}  // namespace veery
