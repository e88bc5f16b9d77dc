// bf16_dot.h: where the processor's dot products of bf16 are used.
#pragma once
#include "kernels/kernels.h"

namespace veery {

/// Whether kernels for `target` use VDPBF16PS. Others do what it does by fma: the odd one of a pair
/// before the even one, without subnormal numbers.
bool uses_bf16_dot(Target target);

}  // namespace veery
