// walk.h: one cooperative kernel that carries out a whole step of one sequence: its blocks of
// threads, one a processor, go through a table of rows together and wait for each other behind
// each.
#pragma once
#include "kernels/gpu/functions/angles.h"
#include "kernels/gpu/functions/attention/attend_step.h"
#include "kernels/gpu/functions/walk/walk_linear.h"

namespace veery::gpu {

/// Attention; `rope`: the row of the queries it wants (attend_step()), or nullptr. Keys and values
/// that steps before have left are asked for before the rows before are waited for.
template <typename T>
VEERY_GPU void walk_attend(WalkState& state, const WalkRow& row, const WalkRow* rope, int& turn) {
  using Own = Attention<T, 1, true, kStepThreads / 64>;
  const int count = row.x * row.y;
  WalkState::Known* known = WalkState::known();
  for (int v = block_x(), first_v = v;; v += blocks_x()) {
    // Blocks of positions that there are come first.
    const BlockAt at = {v / row.y, v % row.y, 0, row.x};
    const AttendToken token =
        known->token.position < 0 ? Own::token_of(row.attend, 0) : known->token;
    Own of(row.attend, 0, at.y, WalkState::attend_mbarrier(), token);
    const int64_t first = of.first_block() + at.x;
    const bool is = v < count && first <= of.last_block();
    KnownPage page = known->page;
    if (is) {
      page = of.find_pages(first, page);
      fence_copies();
      // The newest are not among those that attend_step() wants from the cache.
      if (rope != nullptr) of.ask(first);
    }
    if (v == first_v) {
      state.wait_for_rows();
      if (thread() == 0) *known = {token, page};
      state.look_ahead();
    }
    if (!is) break;
    if (rope != nullptr) {
      attend_step(rope->qkv_rope, row.attend, of, at, turn);
    } else {
      of.ask(first);
      of.load_queries();
      attend_some_blocks(row.attend, of, at, turn, [](int64_t) {});
    }
    sync_block();
    if (v + blocks_x() >= count) break;
  }
}
VEERY_GPU void walk_attention(WalkState& state, const WalkRow& row, const WalkRow* rope,
                              int& turn) {
  switch (row.type) {
    case 0: return walk_attend<BF16>(state, row, rope, turn);
    case 1: return walk_attend<F16>(state, row, rope, turn);
    default: return walk_attend<float>(state, row, rope, turn);
  }
}

VEERY_GPU_APART void walk_rows(const WalkRow& row, const BlockAt& at) {
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

/// kBlocks: there may be weights in blocks of 32.
template <bool kBlocks>
VEERY_GPU void walk(const WalkArguments& a) {
  WalkState state(a);
  state.begin();
  int turn = 0;
  while (state.current() < state.count()) {
    const WalkRow& row = state.row(state.current());
    bool waits = row.waits != 0;
    if (row.kind == WalkKind::kLinear) {
      walk_linear<kBlocks>(state, row.linear);
    } else if (row.kind == WalkKind::kQkvRope && row.type != 0) {
      const WalkRow& attends = state.row(state.current() + 1);
      waits = attends.waits != 0;
      walk_attention(state, attends, &row, turn);
      state.end_row(false);
    } else if (row.kind == WalkKind::kAttend) {
      walk_attention(state, row, nullptr, turn);
    } else {
      state.wait_for_rows();
      state.look_ahead();
      for (int v = block_x(); v < row.x * row.y; v += blocks_x()) {
        walk_rows(row, {v % row.x, v / row.x, 0, row.x});
        sync_block();
      }
    }
    state.end_row(waits);
  }
}

}  // namespace veery::gpu
