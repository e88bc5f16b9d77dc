// attend_decode.h: attention of a step of one sequence: each block of threads finds the queries it
// wants, and what it is to see of the new key and value, by itself (qkv_rope).
#pragma once
#include "kernels/gpu/kernels/attention/attend_split.h"

namespace veery::gpu {

/// Keys and values of the first block of positions, which were asked for, are on their way while
/// the newest are made.
template <typename T, int kDims, int kThreadSets>
VEERY_GPU void attend_decode(const QkvRopeParams& rope, const AttendParams& a,
                             Attention<T, kDims, true, kThreadSets>& attn) {
  static_assert(2 * kThreadSets >= kMaxHeads + 2, "a warp for each query, the key and the value");
  constexpr int kEach = kDims * kKvBlock / 2 / kWarp;  // pairs of dimensions of a lane
  const int own = warp(), queries = attn.heads(), n = rope.head_dim;
  const bool has_new = (attn.last_block() - attn.first_block() - block_x()) % blocks_x() == 0;
  const bool finds = own < queries + (has_new ? 2 : 0);
  QkvHead::Pair found[kEach] = {};
  if (finds) {
    const int kv = attn.key_head();
    QkvHead head(rope, 0,
                 own < queries    ? attn.head() + own
                 : own == queries ? rope.heads + kv
                                  : rope.heads + rope.kv_heads + kv);
    QkvHead::PairSource from[kEach];
    VEERY_UNROLL(4)
    for (int i = 0; i < kEach; ++i) {
      const int q = i * kWarp + lane();
      from[i] = head.load_pair(q < n / 2 ? q : 0);
    }
    if (!head.is_query()) head.set_page(attn.position(), attn.newest_page(!head.is_value()));
    VEERY_UNROLL(4)
    for (int i = 0; i < kEach; ++i) {
      found[i] = head.pair_of(from[i]);
      if (i * kWarp + lane() >= n / 2) continue;
      const QkvHead::Pair& pair = found[i];
      if (own < queries) {
        attn.store_query(own, pair.first, pair.a);
        attn.store_query(own, pair.second, pair.b);
      } else {
        Element<T>::put(head.template cache_element<T>(pair.first), pair.a);
        Element<T>::put(head.template cache_element<T>(pair.second), pair.b);
      }
    }
  }
  attend_kv_blocks(a, attn, [&](int64_t block) {
    if (block == attn.last_block() && finds && own >= queries) {
      VEERY_UNROLL(4)
      for (int i = 0; i < kEach; ++i) {
        if (i * kWarp + lane() >= n / 2) continue;
        attn.store_new(own == queries, found[i].first, found[i].a);
        attn.store_new(own == queries, found[i].second, found[i].b);
      }
    }
    sync_block();
  });
}

/// A launch of its own, of kDecodeThreads threads.
template <typename T, int kDims>
VEERY_GPU void attend_decode(const AttendDecodeParams& s) {
  if (s.prefetch_cache == 0)
    wait_for_dependencies();
  else
    acquire_finished_launches();
  if (block_z() >= s.attend.run.count(s.attend.out.rows)) return;
  Attention<T, kDims, true, kDecodeThreads / 64> attn(s.attend, block_z(), block_y());
  if (attn.first_block() + block_x() > attn.last_block()) return;
  attn.find_pages(attn.first_block() + block_x());
  attn.init_stage();
  attn.copy_block(attn.first_block() + block_x());
  wait_for_dependencies();
  attend_decode(s.rope, s.attend, attn);
}

}  // namespace veery::gpu
