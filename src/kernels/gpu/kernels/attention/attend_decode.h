// attend_step.h: attention of a step of one sequence: each block of threads finds the queries it
// wants, and what it is to see of the new key and value, by itself (qkv_rope).
#pragma once
#include "kernels/gpu/kernels/attention/attend_split.h"

namespace veery::gpu {

/// Keys and values of the first block of positions, which were asked for, are on their way while
/// the newest are made.
template <typename T, int kDims, int kSets>
VEERY_GPU void attend_step(const QkvRopeArguments& rope, const AttendArguments& a,
                           Attention<T, kDims, true, kSets>& of) {
  static_assert(2 * kSets >= kMostHeads + 2, "a warp for each query, the key and the value");
  constexpr int kEach = kDims * kBlock / 2 / kWarp;  // pairs of dimensions of a lane
  const int own = warp(), queries = of.heads(), n = rope.head_dim;
  const bool has_new = (of.last_block() - of.first_block() - block_x()) % blocks_x() == 0;
  const bool finds = own < queries + (has_new ? 2 : 0);
  QkvHead::Pair found[kEach] = {};
  if (finds) {
    const int kv = of.key_head();
    QkvHead head(rope, 0,
                 own < queries    ? of.head() + own
                 : own == queries ? rope.heads + kv
                                  : rope.heads + rope.kv_heads + kv);
    QkvHead::PairSource from[kEach];
    VEERY_UNROLL(4)
    for (int i = 0; i < kEach; ++i) {
      const int q = i * kWarp + lane();
      from[i] = head.load_pair(q < n / 2 ? q : 0);
    }
    if (!head.is_query()) head.set_place(of.position(), of.newest_page(!head.is_value()));
    VEERY_UNROLL(4)
    for (int i = 0; i < kEach; ++i) {
      found[i] = head.pair_of(from[i]);
      if (i * kWarp + lane() >= n / 2) continue;
      const QkvHead::Pair& pair = found[i];
      if (own < queries) {
        of.put_query(own, pair.first, pair.a);
        of.put_query(own, pair.second, pair.b);
      } else {
        Element<T>::put(head.template place<T>(pair.first), pair.a);
        Element<T>::put(head.template place<T>(pair.second), pair.b);
      }
    }
  }
  attend_some_blocks(a, of, [&](int64_t block) {
    if (block == of.last_block() && finds && own >= queries) {
      VEERY_UNROLL(4)
      for (int i = 0; i < kEach; ++i) {
        if (i * kWarp + lane() >= n / 2) continue;
        of.put_new(own == queries, found[i].first, found[i].a);
        of.put_new(own == queries, found[i].second, found[i].b);
      }
    }
    sync_block();
  });
}

/// A launch of its own, of kStepThreads threads.
template <typename T, int kDims>
VEERY_GPU void attend_step(const StepArguments& s) {
  if (s.early == 0)
    wait_for_inputs();
  else
    see_what_has_ended();
  if (block_z() >= s.attend.run.count(s.attend.out.rows)) return;
  Attention<T, kDims, true, kStepThreads / 64> of(s.attend, block_z(), block_y());
  if (of.first_block() + block_x() > of.last_block()) return;
  of.find_pages(of.first_block() + block_x());
  of.make_stage();
  of.ask(of.first_block() + block_x());
  wait_for_inputs();
  attend_step(s.rope, s.attend, of);
}

}  // namespace veery::gpu
