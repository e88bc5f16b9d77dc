// attend_split.h: attention over pages with the bits of kernels/cpu/attend. Each KV block of 128
// positions has scores, a maximum and weighted values of its own. These are merged into segments,
// and segments into the row, in order.
#pragma once
#include "kernels/gpu/dialect/kernel_key.h"
#include "kernels/gpu/params/attend_params.h"

namespace veery::gpu {

/// The kernels of this file: split KV, the merge of its states (if blocks do not exchange data),
/// and whole rows.
enum class AttendPart : uint8_t { kSplit, kMerge, kRows };

namespace key {

/// `wide`: values of more than 128 dimensions.
constexpr KernelKey attend(AttendPart part, CacheType type, bool wide) {
  return of(Family::kAttendSplit, static_cast<int>(type), RowClass::kAny,
            2 * static_cast<int>(part) + (wide ? 1 : 0));
}

}  // namespace key
}  // namespace veery::gpu

#if defined(VEERY_GPU_CODE)
#include "kernels/gpu/kernels/attention/attend_block-inl.h"

namespace veery::gpu {

/// Split-KV, for few rows: the thread blocks take KV blocks in turn. On entry the queries are in
/// shared memory, and the copies of the first KV block have been issued. All threads call `enter`
/// before they read a KV block that has arrived. If kBlocksExchange, the last thread block merges
/// all states; otherwise another kernel does.
template <typename T, int kDims, bool kStaged, int kThreadSets, typename Enter>
VEERY_GPU void attend_kv_blocks(const VEERY_THREAD AttendParams& a,
                                VEERY_THREAD Attention<T, kDims, kStaged, kThreadSets>& attn,
                                const VEERY_THREAD Enter& enter VEERY_CONTEXT) {
  using Attn = Attention<T, kDims, kStaged, kThreadSets>;
  constexpr int kValues = Attn::kValues;
  const int64_t first = attn.first_block() + block_x(),
                all = attn.last_block() - attn.first_block() + 1;
  int phase = 0;
  State<kValues> states[Attn::kThreadQueries];
  for (int64_t block = first; block <= attn.last_block(); block += blocks_x()) {
    attn.wait(phase);
    enter(block);
    attn.attend(block, states);
    sync_block();
    if (block + blocks_x() <= attn.last_block()) attn.copy_block(block + blocks_x());
    VEERY_UNROLL(4)
    for (int q = 0; q < Attn::kThreadQueries; ++q) {
      const int h = attn.head_of(q);
      if (h >= attn.heads()) continue;
      if (all == 1) {
        State<kValues> whole, segment;
        segment.template merge_in<T>(states[q]);
        whole.template merge_in<T>(segment);
        attn.finish(h, whole);
        continue;
      }
      VEERY_DEVICE float* part =
          a.partials + ((int64_t{block_z()} * a.heads + attn.head() + h) * a.blocks + block -
                        attn.first_block()) *
                           (kPartialHeader + a.value_dim);
      if (attn.dim(0) == 0) part[0] = states[q].max_score, part[1] = states[q].sum;
      VEERY_UNROLL(4)
      for (int i = 0; i < kValues; ++i)
        if (attn.dim(i) < a.value_dim) part[kPartialHeader + attn.dim(i)] = states[q].values[i];
    }
  }
  if constexpr (kBlocksExchange) {
    if (all == 1) return;
    const auto blocks = static_cast<uint32_t>(all < blocks_x() ? all : blocks_x());
    if (!attn.is_last_block(a.arrivals + block_z() * attn.parts(a) + block_y(), blocks)) return;
    for (int q = 0; q < Attn::kThreadQueries; ++q)
      if (attn.head_of(q) < attn.heads()) merge_blocks(a, attn, block_z(), attn.head_of(q));
  }
}
template <typename T, int kDims, bool kStaged>
VEERY_GPU void attend_split_staged(const VEERY_THREAD AttendParams& a VEERY_CONTEXT) {
  if (block_z() >= a.run.count(a.out.rows)) return;
  Attention<T, kDims, kStaged> attn(a, block_z(), block_y() VEERY_CONTEXT_ARG);
  if (attn.first_block() + block_x() > attn.last_block()) return;
  attn.init_stage();
  attn.copy_block(attn.first_block() + block_x());
  attn.load_queries();
  attend_kv_blocks(a, attn, [](int64_t) {} VEERY_CONTEXT_ARG);
}
template <typename T, int kDims>
VEERY_GPU void attend_split(const VEERY_THREAD AttendParams& a VEERY_CONTEXT) {
  wait_for_dependencies();
  if constexpr (kGenericPointers)
    if (a.staged != 0) return attend_split_staged<T, kDims, true>(a VEERY_CONTEXT_ARG);
  attend_split_staged<T, kDims, false>(a VEERY_CONTEXT_ARG);
}
/// Merges the states of attend_split(): one block of 64 threads per query.
template <typename T, int kDims>
VEERY_GPU void attend_merge(const VEERY_THREAD AttendParams& a VEERY_CONTEXT) {
  const int64_t row = block_z();
  if (row >= a.run.count(a.out.rows)) return;
  Attention<T, kDims, false, 1> attn(a, row, block_y() VEERY_CONTEXT_ARG);
  const int own = block_x();
  if (own >= attn.heads() || attn.first_block() == attn.last_block()) return;
  merge_blocks(a, attn, row, own);
}

/// Processes one row and its queries of one key head.
template <typename T, int kDims, bool kStaged>
VEERY_GPU void attend_row(const VEERY_THREAD AttendParams& a, int64_t row VEERY_CONTEXT) {
  Attention<T, kDims, kStaged> attn(a, row, block_y() VEERY_CONTEXT_ARG);
  attn.init_stage();
  attn.copy_block(attn.first_block());
  attn.load_queries();
  using Attn = Attention<T, kDims, kStaged>;
  State<Attn::kValues> whole[Attn::kThreadQueries], segment[Attn::kThreadQueries],
      part[Attn::kThreadQueries];
  int phase = 0;
  for (int64_t b = attn.first_block(); b <= attn.last_block(); ++b) {
    attn.wait(phase);
    attn.attend(b, part);
    sync_block();
    if (b < attn.last_block()) attn.copy_block(b + 1);
    const bool end = b == attn.last_block() || ends_segment(b);
    VEERY_UNROLL(4)
    for (int q = 0; q < Attn::kThreadQueries; ++q) {
      segment[q].template merge_in<T>(part[q]);
      if (!end) continue;
      whole[q].template merge_in<T>(segment[q]);
      segment[q].clear();
    }
  }
  VEERY_UNROLL(4)
  for (int q = 0; q < Attn::kThreadQueries; ++q)
    if (attn.head_of(q) < attn.heads()) attn.finish(attn.head_of(q), whole[q]);
}

/// Returns whether the rows [first, last] are consecutive positions of one sequence. Called by a
/// warp.
VEERY_GPU bool is_contiguous(const VEERY_THREAD AttendParams& a, int64_t first, int64_t last) {
  const int64_t begin = a.run.token_row(a.q.rows, first);
  bool same = true;
  for (int64_t r = first + lane(); r <= last; r += kWarp) {
    const int64_t token = a.run.token_row(a.q.rows, r);
    same = same && a.run.span_of[token] == a.run.span_of[begin] &&
           a.run.position(token) == a.run.position(begin) + static_cast<int32_t>(r - first);
  }
  return ballot(!same) == 0;
}
/// Many rows: a thread block processes a row and its queries of one key head.
template <typename T, int kDims>
VEERY_GPU void attend_rows(const VEERY_THREAD AttendParams& a VEERY_CONTEXT) {
  wait_for_dependencies();
  const int64_t row = block_z();
  if (row >= a.run.count(a.out.rows)) return;
  if constexpr (kGenericPointers)
    if (a.staged != 0) return attend_row<T, kDims, true>(a, row VEERY_CONTEXT_ARG);
  attend_row<T, kDims, false>(a, row VEERY_CONTEXT_ARG);
}

}  // namespace veery::gpu
#endif  // VEERY_GPU_CODE

#define VEERY_GPU_ATTEND(X, set, name, type, cache, dims)                                    \
  X(set, attend_split_##name##_##dims, AttendParams, 128, 0,                                 \
    key::attend(AttendPart::kSplit, CacheType::cache, dims > 1), (attend_split<type, dims>)) \
  X(set, attend_rows_##name##_##dims, AttendParams, 128, 0,                                  \
    key::attend(AttendPart::kRows, CacheType::cache, dims > 1), (attend_rows<type, dims>))
#define VEERY_GPU_ATTEND_MERGE(X, set, name, type, cache, dims) \
  X(set, attend_merge_##name##_##dims, AttendParams, 64, 0,     \
    key::attend(AttendPart::kMerge, CacheType::cache, dims > 1), (attend_merge<type, dims>))
#define VEERY_GPU_ATTEND_SPLIT_KERNELS(X)            \
  VEERY_GPU_EACH_CACHE(VEERY_GPU_ATTEND, X, kShared) \
  VEERY_GPU_EACH_CACHE(VEERY_GPU_ATTEND_MERGE, X, kMetal)
