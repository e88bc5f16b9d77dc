// blocks.h: where the block of a sequence lies that a recurrent layer keeps.
#pragma once
#include "kernels/dispatch.h"

namespace veery {

/// The block that stands for the first `position` positions of a sequence.
inline float* block_of(const Operand& state, const Slots& slots, int sequence, int64_t position) {
  const PageTable& table = slots.table(state.group, sequence);
  return reinterpret_cast<float*>(state.data + table.pages[position % table.count] * state.stride);
}
/// Of how many of the last positions of a run blocks are kept.
inline int64_t blocks_kept(const Operand& state, const Slots& slots, int sequence) {
  return slots.table(state.group, sequence).count;
}

/// Row `row` of a value that has one for each token, or one for all.
inline const float* row_or_only(const Operand& o, int64_t row) {
  return o.row<float>(o.rows == 1 ? 0 : row);
}

}  // namespace veery
