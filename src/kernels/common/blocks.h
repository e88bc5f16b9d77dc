// blocks.h: addresses of recurrent states.
#pragma once
#include "kernels/dispatch.h"

namespace veery {

/// Returns the state block of a sequence after its first `position` positions.
inline float* block_of(const Operand& state, const RunShape& shape, int sequence,
                       int64_t position) {
  const PageTable& table = shape.table(state.group, sequence);
  return reinterpret_cast<float*>(state.data + table.pages[position % table.count] * state.stride);
}
/// Returns the number of state blocks of a sequence. A run stores the states after this many of its
/// last positions.
inline int64_t blocks_kept(const Operand& state, const RunShape& shape, int sequence) {
  return shape.table(state.group, sequence).count;
}

/// Returns row `row` of an operand that has one row per token, or the only row.
inline const float* row_or_only(const Operand& o, int64_t row) {
  return o.row<float>(o.rows == 1 ? 0 : row);
}

}  // namespace veery
