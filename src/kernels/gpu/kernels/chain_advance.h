// chain_advance.h: advances the rows of a chained decode by their next tokens.
#pragma once

#if defined(VEERY_GPU_CODE)
#include "kernels/gpu/params/chain_params.h"

namespace veery::gpu {

/// Appends `token` to the answer of the row, and ends the row if the token is an end or the last
/// one allowed.
VEERY_GPU void take_token(const VEERY_THREAD ChainAdvanceParams& a, VEERY_DEVICE ChainState& state,
                          int64_t r, int32_t token) {
  VEERY_DEVICE ChainTokens& chosen = a.chosen[r];
  if (token >= 0) chosen.tokens[state.made++] = token;
  chosen.count = state.made;
  bool ends = token < 0 || --state.left == 0;
  for (int i = 0; i < state.stops; ++i) ends = ends || state.stop[i] == token;
  if (ends) {
    state.left = 0;
    return;
  }
  if (a.tokens != nullptr) a.tokens[r] = token;
  if (a.positions != nullptr) a.positions[r] += 1;
  a.spans[r].position += 1;
  if (state.settings.temperature != 0) state.position += 1;
  if (state.window > 0) {
    const bool grows = state.recent < state.window;
    a.lists[r].recent[grows ? state.recent++ : state.oldest] = token;
    if (!grows) state.oldest = (state.oldest + 1) % state.window;
  }
  if (a.again != nullptr) *a.again = 1;
}

/// One thread block per row. Every span is one row, and all rows are greedy; chain_advance() in
/// chain_sample.h handles sampled rows. A row that has ended is not advanced, so it writes the same
/// values again.
VEERY_GPU void chain_advance_greedy(const VEERY_THREAD ChainAdvanceParams& a VEERY_CONTEXT) {
  const int64_t r = block_x();
  if (thread() != 0 || r >= a.run.counts[0] || a.states[r].left == 0) return;
  take_token(a, a.states[r], r, reinterpret_cast<VEERY_DEVICE int32_t*>(a.best.row(r))[0]);
}

}  // namespace veery::gpu
#endif  // VEERY_GPU_CODE

#define VEERY_GPU_CHAIN_ADVANCE_KERNELS(X) \
  VEERY_GPU_SINGLE(X, kMetal, chain_advance_greedy, ChainAdvanceParams, 128)
