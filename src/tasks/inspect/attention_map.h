// attention_map.h: the probabilities with which queries attend to keys.
#pragma once
#include <span>

#include "base/thread_pool.h"
#include "graph/ops/attention.h"
#include "kernels/dispatch.h"

namespace veery {

/// One run of one sequence, whose rows are queries. q [rows, heads * size], k [keys, kv_heads *
/// size], both behind RoPE; sinks [1, heads], or absent. Keys are those of the rows, or those that
/// an encoder gave.
struct AttentionValues {
  const AttendAttr& attr;
  const Operand &q, &k, &sinks;
  const Slots& slots;
  int64_t keys;
};

/// softmax over the positions that mask and window let each query see of softcap(scale q k) - slope
/// distance, with the head's sink among them, as op::kAttend defines it: out
/// [heads.size()][rows][keys], 0 where a query does not see. The order of sums is fixed.
void attention_maps(const AttentionValues& values, std::span<const int32_t> heads, ThreadPool& pool,
                    float* out);

}  // namespace veery
