// amx_linear.h: the phases of a linear with many rows on the tiles of AMX. Contract: linear.h.
#pragma once
#include "kernels/cpu/linear/product.h"

namespace veery {

/// Null if the target has no tiles or a weight is of a type that has no tiles. With few rows these
/// phases do what those of kAvx512Vnni do, in the same memory.
const LinearPhases* amx_phases(const Dispatch& dispatch, const KernelChoice& choice);

/// Bytes of the prepared rows and of Worker::scratch.
int64_t amx_activation_bytes(const Product& product);
int64_t amx_scratch_bytes(const Product& product);

}  // namespace veery
