// walk.h: one cooperative kernel that carries out a whole step of one sequence: its blocks of
// threads, one a processor, go through a table of rows together and wait for each other behind
// each.
#pragma once
#include "kernels/gpu/functions/angles.h"
#include "kernels/gpu/functions/attend.h"
#include "kernels/gpu/functions/walk_linear.h"

namespace veery::gpu {

template <typename T, int kDims, bool kStaged>
VEERY_GPU void walk_attend_blocks(const WalkRow& row, Gate* gate, int& turn) {
  fence_copies();
  for (int v = block_x(); v < row.x * row.y; v += blocks_x()) {
    // Blocks of positions that there are come first.
    const BlockAt at = {v / row.y, v % row.y, 0, row.x};
    Attention<T, kDims, kStaged, WalkPlaces::kThreads / kBlock> of(row.attend, 0, at.y, gate);
    if (of.first_block() + at.x > of.last_block()) break;
    attend_some_blocks(row.attend, of, at, turn);
    sync_block();
  }
}
template <typename T, int kDims>
VEERY_GPU void walk_attend(const WalkRow& row, Gate* gate, int& turn) {
  if (row.kind == WalkKind::kMerge) {
    for (int v = block_x(); v < row.x * row.y; v += blocks_x())
      attend_merge<T, kDims>(row.attend, {v % row.x, v / row.x, 0, row.x});
  } else if (row.attend.staged != 0) {
    walk_attend_blocks<T, kDims, true>(row, gate, turn);
  } else {
    walk_attend_blocks<T, kDims, false>(row, gate, turn);
  }
}
VEERY_GPU void walk_attention(const WalkRow& row, Gate* gate, int& turn) {
  switch (row.type) {
    case 0: return walk_attend<BF16, 1>(row, gate, turn);
    case 1: return walk_attend<F16, 1>(row, gate, turn);
    case 2: return walk_attend<float, 1>(row, gate, turn);
    case 3: return walk_attend<BF16, 2>(row, gate, turn);
    case 4: return walk_attend<F16, 2>(row, gate, turn);
    default: return walk_attend<float, 2>(row, gate, turn);
  }
}

VEERY_GPU void walk_rows(const WalkRow& row, const BlockAt& at) {
  switch (row.kind) {
    case WalkKind::kEmbed: return embed(row.embed, at);
    case WalkKind::kRmsNorm: return rms_norm(row.rms_norm, at);
    case WalkKind::kLayerNorm: return layer_norm(row.layer_norm, at);
    case WalkKind::kElementwise: return elementwise(row.elementwise, at);
    case WalkKind::kSelectRows: return select_rows(row.select_rows, at);
    case WalkKind::kArgmax: return argmax(row.argmax, at);
    case WalkKind::kBest: return best(row.best, at);
    case WalkKind::kAngles: return angles(row.angles, at);
    case WalkKind::kRope: return rope(row.rope, at);
    case WalkKind::kCacheWrite: return cache_write(row.cache_write, at);
    default: return qkv_rope(row.qkv_rope, at);
  }
}

VEERY_GPU void walk(const WalkArguments& a) {
  WalkState state(a);
  state.begin();
  int turn = 0;
  while (state.current() < a.count) {
    const WalkRow& row = state.row(state.current());
    const bool waits = row.waits != 0;
    state.begin_row();
    if (row.kind == WalkKind::kLinear) {
      walk_linear(state, row.linear);
    } else if (row.kind == WalkKind::kAttend || row.kind == WalkKind::kMerge) {
      walk_attention(row, state.attend_gate(), turn);
    } else {
      for (int v = block_x(); v < row.x * row.y; v += blocks_x()) {
        walk_rows(row, {v % row.x, v / row.x, 0, row.x});
        sync_block();
      }
    }
    state.next_row(waits);
  }
}

}  // namespace veery::gpu
