// gather_keys.h: chosen positions of a cache as a block of neighbours.
#pragma once
#include "kernels/dispatch.h"

namespace veery::attend {

/// Keys of one head at `count` positions of a sequence as f32 [i / 16][dimension][i % 16]; lanes
/// behind the last are zeros. Of what a type stores the values are those that its blocks become.
void gather_keys(const Operand& cache, const Slots& slots, int sequence, int64_t kv_head,
                 const int32_t* positions, int count, float* out);

}  // namespace veery::attend
