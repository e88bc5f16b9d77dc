// gather_keys.h: gathers the keys of chosen positions of a KV cache into contiguous tiles.
#pragma once
#include "kernels/dispatch.h"

namespace veery::attend {

/// Writes the keys of one KV head at `count` positions of a sequence, decoded to f32, as
/// [i / 16][dimension][i % 16]. Lanes after the last position are zeros.
void gather_keys(const Operand& cache, const RunShape& shape, int sequence, int64_t kv_head,
                 const int32_t* positions, int count, float* out);

}  // namespace veery::attend
