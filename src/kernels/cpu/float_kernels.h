// float_kernels.h: the vectorised kernels that compute in f32, a table for each file.
#pragma once
#include "kernels/common/table.h"

namespace veery {

KernelRows fast_attend();

}  // namespace veery
