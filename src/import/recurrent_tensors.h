// recurrent_tensors.h: converts the weights of recurrent layers of all containers to one form.
#pragma once
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <vector>

#include "file/model_file.h"

namespace veery {

/// Converts the weights of recurrent layers, and of gated attention in the same models, to the form
/// that definitions use: ssm_qkv, ssm_gate, ssm_alpha and ssm_beta as separate projections,
/// convolutions as [width, channels], ssm_a as -exp(A_log), attn_q and attn_gate separated. Tensors
/// must already have GGUF names. Throws kFormat naming a tensor that does not fit. Does nothing if
/// there are no recurrent layers.
void arrange_recurrent(ModelFile& file);

/// Returns `tensor` with f(index, x) applied to each element, as f32.
TensorView with_values(const TensorView& tensor, const std::function<float(size_t, float)>& f);

/// Rows come in `groups` groups, each of which consists of parts of these sizes. Returns the order
/// that collects the rows part by part: entry i is the source row of row i.
std::vector<int64_t> parts_of_groups(int64_t groups, std::initializer_list<int64_t> sizes);

}  // namespace veery
