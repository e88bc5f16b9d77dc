// bf16_dot.h: whether kernels use the bf16 dot product instruction.
#pragma once
#include "kernels/kernels.h"

namespace veery {

/// Returns whether kernels for `target` use VDPBF16PS. Other kernels emulate it by fma: the odd
/// column of a pair before the even one, subnormal numbers flushed to 0.
bool uses_bf16_dot(Target target);

}  // namespace veery
