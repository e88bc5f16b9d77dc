// recurrent_tensors.h: the weights of recurrent layers, which containers keep in different ways.
#pragma once
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <vector>

#include "file/model_file.h"

namespace veery {

/// Brings the weights of recurrent layers, and of the gated attention beside them, into the form
/// that definitions use, whatever the container: ssm_qkv, ssm_gate, ssm_alpha and ssm_beta as
/// projections of their own, convolutions as [width, channels], ssm_a as -exp(A_log), attn_q and
/// attn_gate apart. Tensors must have our names. Throws kFormat naming a tensor that does not fit.
/// Nothing is done where there are no recurrent layers.
void arrange_recurrent(ModelFile& file);

/// f(index, x) of each element, as f32.
TensorView with_values(const TensorView& tensor, const std::function<float(size_t, float)>& f);

/// Rows of `groups` that hold parts of these sizes each, part by part: row i of all parts together
/// is which row of the groups.
std::vector<int64_t> parts_of_groups(int64_t groups, std::initializer_list<int64_t> sizes);

}  // namespace veery
