// chain_sample.h: the kernels between two steps of a chained decode. They sample the next token of
// each row as the host's sampler does (sample/sampler.cc), from the results of top_k(), and store
// it in the input slots.
#pragma once
#include "kernels/gpu/params/chain_params.h"

namespace veery::gpu {

struct ChainLoopParams {
  uint64_t condition;  ///< handle of the graph's conditional node
  VEERY_DEVICE uint32_t* again;
};

/// Offsets in bytes.
struct ChainAdvanceSmem {
  VEERY_STATIC int kThreads = 128;
  VEERY_STATIC int kCount = 0, kWeights = 16;
  static VEERY_GPU_HOST constexpr int order(int count) { return kWeights + 8 * count; }
  static VEERY_GPU_HOST constexpr int bytes(int count) { return order(count) + 4 * count; }
};

}  // namespace veery::gpu

#if defined(VEERY_CUDA_CODE)
#include "base/philox.h"
#include "kernels/draw.h"
#include "kernels/gpu/kernels/chain_advance.h"
#include "kernels/gpu/kernels/rows.h"

namespace veery::gpu {

/// Applies biases and penalties to the logits [begin, end) of a row, by one thread block. `ids`:
/// shared memory for kMaxRecent token ids.
VEERY_GPU void change_logits(const ChainState& state, const ChainLists& lists, float* logits,
                             int begin, int end, int32_t* ids) {
  const int recent = state.recent, biases = state.biases;
  if (recent == 0 && biases == 0) return;
  const auto is_first = [&](auto id_at, int i) {
    if (id_at(i) < begin || id_at(i) >= end) return false;
    for (int j = 0; j < i; ++j)
      if (id_at(j) == id_at(i)) return false;
    return true;
  };
  for (int i = thread(); i < recent; i += threads()) ids[i] = lists.recent[i];
  const auto biased = [&](int i) { return lists.biases[i].id; };
  for (int i = thread(); i < biases; i += threads()) {
    if (!is_first(biased, i)) continue;
    for (int j = i; j < biases; ++j)
      if (biased(j) == biased(i)) logits[biased(i)] += lists.biases[j].value;
  }
  sync_block();
  const auto penalised = [&](int i) { return ids[i]; };
  for (int i = thread(); i < recent; i += threads()) {
    if (!is_first(penalised, i)) continue;
    int32_t times = 1;
    for (int j = i + 1; j < recent; ++j) times += ids[j] == ids[i] ? 1 : 0;
    logits[ids[i]] = penalized(logits[ids[i]], state.penalties, times);
  }
  sync_block();
}

/// Returns the number of most probable tokens that top-p leaves, or -1 if these are more than
/// `count`.
VEERY_GPU int32_t top_p_count(const double* masses, int32_t count, double mass) {
  double sum = 0;
  for (int32_t i = 0; i < count; ++i) {
    sum += masses[i];
    if (!(sum < mass)) return i + 1;
  }
  return -1;
}

/// Returns the sampled token of a row, in thread 0; -1 if the results of top_k() do not determine
/// it.
VEERY_GPU int32_t draw_token(const ChainAdvanceParams& a, const ChainState& state, int64_t r) {
  using P = ChainAdvanceSmem;
  const float* values = a.values.row(r);
  const auto* ids = reinterpret_cast<const int32_t*>(a.best.row(r));
  const DrawSettings& s = state.settings;
  const float infinity = bits_to_float(0x7f800000), best = values[0];
  if (s.temperature == 0) return ids[0];
  if (ids[0] < 0 || best == infinity || best == negative(infinity)) return -1;
  const int n = a.values.cols;
  auto* shared = reinterpret_cast<int32_t*>(shared_memory() + P::kCount);
  auto* weights = reinterpret_cast<double*>(shared_memory() + P::kWeights);
  auto* order = reinterpret_cast<int32_t*>(shared_memory() + P::order(n));

  if (thread() == 0) shared[0] = 0;
  sync_block();
  const float threshold = best + s.log_min_p;
  for (int i = thread(); i < n; i += threads())
    if (ids[i] >= 0 && values[i] >= threshold && values[i] > negative(infinity))
      count_arrival(shared);
  sync_block();
  int32_t count = shared[0];
  bool all = count < n;  // whether all tokens that pass the filters so far are known
  if (s.top_k > 0 && count >= s.top_k) count = s.top_k, all = true;
  if (s.top_p < 1) {
    for (int i = thread(); i < count; i += threads()) weights[i] = mass_of(values[i], best);
    sync_block();
    if (thread() == 0)
      shared[1] = top_p_count(weights, count, double{s.top_p} * double{a.mass.row(r)[0]});
    sync_block();
    if (shared[1] < 0 && !all) return -1;
    count = shared[1] < 0 ? count : shared[1];
  } else if (!all) {
    return -1;
  }
  // The sampler sorts by id in this case.
  const bool by_id = s.top_p >= 1 && s.top_k <= 0;
  for (int i = thread(); i < count; i += threads()) {
    int offset = by_id ? 0 : i;
    for (int j = 0; by_id && j < count; ++j) offset += ids[j] < ids[i] ? 1 : 0;
    order[offset] = ids[i];
    weights[offset] = draw_weight(values[i], double{best}, s.temperature);
  }
  sync_block();
  if (thread() != 0) return 0;
  return order[drawn(weights, count, random_number(state.seed, state.position)).index];
}

/// One thread block per row; every span is one row. A row that has ended is not advanced, so it
/// writes the same values again.
VEERY_GPU void chain_advance(const ChainAdvanceParams& a) {
  wait_for_dependencies();
  const int64_t r = block_x();
  if (r >= a.run.counts[0] || a.states[r].left == 0) return;
  const int32_t token = a.lists != nullptr ? draw_token(a, a.states[r], r)
                                           : reinterpret_cast<const int32_t*>(a.best.row(r))[0];
  if (thread() == 0) take_token(a, a.states[r], r, token);
}

/// Sets the condition of the graph's loop: whether it runs once more.
VEERY_GPU void chain_loop(const ChainLoopParams& a) {
  wait_for_dependencies();
  if (thread() != 0) return;
  set_graph_condition(a.condition, *a.again);
  *a.again = 0;
}

}  // namespace veery::gpu
#endif  // VEERY_CUDA_CODE

#define VEERY_GPU_CHAIN_SAMPLE_KERNELS(X)                            \
  VEERY_GPU_SINGLE(X, kCuda, chain_advance, ChainAdvanceParams, 128) \
  VEERY_GPU_SINGLE(X, kCuda, chain_loop, ChainLoopParams, 32)
