// attend_decode.h: attention of a decode step of one sequence, with qkv_rope fused in: each thread
// block rotates the queries it needs, and computes the new key and value if it reads them.
#pragma once
#include "kernels/gpu/dialect/kernel_key.h"
#include "kernels/gpu/params/attend_params.h"

namespace veery::gpu {

namespace key {

/// `wide`: values of more than 128 dimensions.
constexpr KernelKey attend_decode(CacheType type, bool wide) {
  return of(Family::kAttendDecode, static_cast<int>(type), RowClass::kOne, wide);
}

}  // namespace key
}  // namespace veery::gpu

#if defined(VEERY_CUDA_CODE)
#include "kernels/gpu/kernels/attention/attend_split.h"

namespace veery::gpu {

/// The keys and values of the first KV block are copied while the new key and value are computed.
template <typename T, int kDims, int kThreadSets>
VEERY_GPU void attend_decode(const QkvRopeParams& rope, const AttendParams& a,
                             Attention<T, kDims, true, kThreadSets>& attn) {
  static_assert(2 * kThreadSets >= kMaxHeads + 2, "a warp for each query, the key and the value");
  constexpr int kLanePairs = kDims * kKvBlock / 2 / kWarp;  // pairs of dimensions per lane
  const int own = warp(), queries = attn.heads(), n = rope.head_dim;
  const bool has_new = (attn.last_block() - attn.first_block() - block_x()) % blocks_x() == 0;
  const bool finds = own < queries + (has_new ? 2 : 0);
  QkvHead::Pair found[kLanePairs] = {};
  if (finds) {
    const int kv = attn.key_head();
    QkvHead head(rope, 0,
                 own < queries    ? attn.head() + own
                 : own == queries ? rope.heads + kv
                                  : rope.heads + rope.kv_heads + kv);
    QkvHead::PairSource from[kLanePairs];
    VEERY_UNROLL(4)
    for (int i = 0; i < kLanePairs; ++i) {
      const int q = i * kWarp + lane();
      from[i] = head.load_pair(q < n / 2 ? q : 0);
    }
    if (!head.is_query()) head.set_page(attn.position(), attn.newest_page(!head.is_value()));
    VEERY_UNROLL(4)
    for (int i = 0; i < kLanePairs; ++i) {
      found[i] = head.pair_of(from[i]);
      if (i * kWarp + lane() >= n / 2) continue;
      const QkvHead::Pair& pair = found[i];
      if (own < queries) {
        attn.store_query(own, pair.first, pair.a);
        attn.store_query(own, pair.second, pair.b);
      } else {
        Element<T>::store(head.template cache_element<T>(pair.first), pair.a);
        Element<T>::store(head.template cache_element<T>(pair.second), pair.b);
      }
    }
  }
  attend_kv_blocks(a, attn, [&](int64_t block) {
    if (block == attn.last_block() && finds && own >= queries) {
      VEERY_UNROLL(4)
      for (int i = 0; i < kLanePairs; ++i) {
        if (i * kWarp + lane() >= n / 2) continue;
        attn.store_new(own == queries, found[i].first, found[i].a);
        attn.store_new(own == queries, found[i].second, found[i].b);
      }
    }
    sync_block();
  });
}

/// The kernel, of kDecodeThreads threads.
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
#endif  // VEERY_CUDA_CODE

#define VEERY_GPU_ATTEND_DECODE(X, set, name, type, cache, dims)                             \
  X(set, attend_decode_##name##_##dims, AttendDecodeParams, (veery::gpu::kDecodeThreads), 0, \
    key::attend_decode(CacheType::cache, dims > 1), (attend_decode<type, dims>))
#define VEERY_GPU_ATTEND_DECODE_KERNELS(X)                                         \
  VEERY_GPU_EACH_CACHE(VEERY_GPU_ATTEND_DECODE, X, kCuda)                          \
  X(kCuda, attend_decode_mma, AttendDecodeParams, (veery::gpu::kDecodeThreads), 0, \
    key::attend_decode(CacheType::kBF16Mma, false), (attend_decode<BF16Mma, 1>))
