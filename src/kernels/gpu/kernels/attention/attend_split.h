// attend.h: attention over pages with the bits of kernels/cpu/attend: blocks of 128 positions, each
// with its own scores, largest score and weighted values, merged into segments and these into the
// row, in order.
#pragma once
#include "kernels/gpu/kernels/attention/attend_block.h"

namespace veery::gpu {

/// Few rows: a block of threads a block of positions, whose queries are there and which was asked
/// for; `enter`, by all threads, is told of each that is there before it is looked at. The last
/// block of threads merges the states of all, or another kernel does (kHandsOver).
template <typename T, int kDims, bool kStaged, int kSets, typename Enter>
VEERY_GPU void attend_some_blocks(const VEERY_THREAD AttendArguments& a,
                                  VEERY_THREAD Attention<T, kDims, kStaged, kSets>& of,
                                  const VEERY_THREAD Enter& enter VEERY_HERE) {
  using Own = Attention<T, kDims, kStaged, kSets>;
  constexpr int kValues = Own::kValues;
  const int64_t first = of.first_block() + block_x(), all = of.last_block() - of.first_block() + 1;
  int turn = 0;
  State<kValues> states[Own::kOwn];
  for (int64_t block = first; block <= of.last_block(); block += blocks_x()) {
    of.wait(turn);
    enter(block);
    of.attend(block, states);
    sync_block();
    if (block + blocks_x() <= of.last_block()) of.ask(block + blocks_x());
    VEERY_UNROLL(4)
    for (int q = 0; q < Own::kOwn; ++q) {
      const int h = of.head_of(q);
      if (h >= of.heads()) continue;
      if (all == 1) {
        State<kValues> whole, segment;
        segment.template merge_in<T>(states[q]);
        whole.template merge_in<T>(segment);
        of.finish(h, whole);
        continue;
      }
      VEERY_DEVICE float* part = a.parts + ((int64_t{block_z()} * a.heads + of.head() + h) * a.blocks +
                                            block - of.first_block()) *
                                               (kPartHeader + a.value_dim);
      if (of.dim(0) == 0) part[0] = states[q].most, part[1] = states[q].sum;
      VEERY_UNROLL(4)
      for (int i = 0; i < kValues; ++i)
        if (of.dim(i) < a.value_dim) part[kPartHeader + of.dim(i)] = states[q].values[i];
    }
  }
  if constexpr (kHandsOver) {
    if (all == 1) return;
    const auto blocks = static_cast<uint32_t>(all < blocks_x() ? all : blocks_x());
    if (!of.is_last(a.come + block_z() * of.parts(a) + block_y(), blocks)) return;
    for (int q = 0; q < Own::kOwn; ++q)
      if (of.head_of(q) < of.heads()) merge_blocks(a, of, block_z(), of.head_of(q));
  }
}
template <typename T, int kDims, bool kStaged>
VEERY_GPU void attend_own_blocks(const VEERY_THREAD AttendArguments& a VEERY_HERE) {
  if (block_z() >= a.run.count(a.out.rows)) return;
  Attention<T, kDims, kStaged> of(a, block_z(), block_y() VEERY_GO);
  if (of.first_block() + block_x() > of.last_block()) return;
  of.make_stage();
  of.ask(of.first_block() + block_x());
  of.load_queries();
  attend_some_blocks(a, of, [](int64_t) {} VEERY_GO);
}
template <typename T, int kDims>
VEERY_GPU void attend_blocks(const VEERY_THREAD AttendArguments& a VEERY_HERE) {
  wait_for_inputs();
  if constexpr (kOneKind)
    if (a.staged != 0) return attend_own_blocks<T, kDims, true>(a VEERY_GO);
  attend_own_blocks<T, kDims, false>(a VEERY_GO);
}
/// What attend_blocks() left to do: a block of 64 threads a query.
template <typename T, int kDims>
VEERY_GPU void attend_merge(const VEERY_THREAD AttendArguments& a VEERY_HERE) {
  const int64_t row = block_z();
  if (row >= a.run.count(a.out.rows)) return;
  Attention<T, kDims, false, 1> of(a, row, block_y() VEERY_GO);
  const int own = block_x();
  if (own >= of.heads() || of.first_block() == of.last_block()) return;
  merge_blocks(a, of, row, own);
}

/// A row and its queries of one key head.
template <typename T, int kDims, bool kStaged>
VEERY_GPU void attend_row(const VEERY_THREAD AttendArguments& a, int64_t row VEERY_HERE) {
  Attention<T, kDims, kStaged> of(a, row, block_y() VEERY_GO);
  of.make_stage();
  of.ask(of.first_block());
  of.load_queries();
  using Own = Attention<T, kDims, kStaged>;
  State<Own::kValues> whole[Own::kOwn], segment[Own::kOwn], part[Own::kOwn];
  int turn = 0;
  for (int64_t b = of.first_block(); b <= of.last_block(); ++b) {
    of.wait(turn);
    of.attend(b, part);
    sync_block();
    if (b < of.last_block()) of.ask(b + 1);
    const bool end = b == of.last_block() || ends_segment(b);
    VEERY_UNROLL(4)
    for (int q = 0; q < Own::kOwn; ++q) {
      segment[q].template merge_in<T>(part[q]);
      if (!end) continue;
      whole[q].template merge_in<T>(segment[q]);
      segment[q].clear();
    }
  }
  VEERY_UNROLL(4)
  for (int q = 0; q < Own::kOwn; ++q)
    if (of.head_of(q) < of.heads()) of.finish(of.head_of(q), whole[q]);
}

/// Whether the rows [first, last] are of one sequence, one position after the other. For a warp.
VEERY_GPU bool follow_each_other(const VEERY_THREAD AttendArguments& a, int64_t first,
                                 int64_t last) {
  const int64_t begin = a.run.token_row(a.q.rows, first);
  bool same = true;
  for (int64_t r = first + lane(); r <= last; r += kWarp) {
    const int64_t token = a.run.token_row(a.q.rows, r);
    same = same && a.run.span_of[token] == a.run.span_of[begin] &&
           a.run.positions[token] == a.run.positions[begin] + static_cast<int32_t>(r - first);
  }
  return ballot(!same) == 0;
}
/// Many rows: a block of threads a row and its queries of one key head.
template <typename T, int kDims>
VEERY_GPU void attend_rows(const VEERY_THREAD AttendArguments& a VEERY_HERE) {
  wait_for_inputs();
  const int64_t row = block_z();
  if (row >= a.run.count(a.out.rows)) return;
  if constexpr (kOneKind)
    if (a.staged != 0) return attend_row<T, kDims, true>(a, row VEERY_GO);
  attend_row<T, kDims, false>(a, row VEERY_GO);
}

}  // namespace veery::gpu
