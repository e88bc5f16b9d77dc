// attention_map.h: attention weights of queries over keys.
#pragma once
#include <span>

#include "base/thread_pool.h"
#include "graph/ops/attention.h"
#include "kernels/dispatch.h"

namespace veery {

/// Queries and keys of one sequence. q [rows, heads * size] and k [keys, kv_heads * size], both
/// after RoPE; sinks [1, heads] or absent. The keys are those of the rows or of an encoder.
struct AttentionValues {
  const AttendAttr& attr;
  const Operand &q, &k, &sinks;
  const RunShape& shape;
  int64_t keys;
};

/// Writes the attention weights of op::kAttend to out [heads.size()][rows][keys]: the softmax of
/// softcap(scale q k) - slope distance over the visible positions and the sink of the head; 0 for
/// positions that mask and window hide. Sums have a fixed order.
void attention_maps(const AttentionValues& values, std::span<const int32_t> heads, ThreadPool& pool,
                    float* out);

}  // namespace veery
