// kv_cache.h: addresses of keys and values in the paged KV cache, and writes to it.
#pragma once
#include "kernels/gpu/params/attend_params.h"

namespace veery::gpu {

VEERY_CONSTANT int kQ8Bytes = 34;  ///< of 32 elements of q8_0

struct CacheWriteParams {
  Run run;
  Matrix x;
  Cache cache;
  int32_t keys;   ///< 1: keys, 0: values
  int32_t bytes;  ///< element type: 4 is f32, 2 is bf16, 1 is f16, kQ8Bytes is q8_0
};

}  // namespace veery::gpu

#if defined(VEERY_GPU_CODE)
#include "kernels/gpu/dialect/formulas.h"

namespace veery::gpu {

/// Returns the page that holds `position` of the sequence of row `r`.
VEERY_GPU int32_t page_number(const VEERY_THREAD Cache& cache, const VEERY_THREAD Run& run,
                              int sequence, int64_t position) {
  const VEERY_DEVICE int32_t* table = run.tables + 2 * (cache.group * run.counts[3] + sequence);
  // Positions are below 2^31; division of 32-bit numbers is faster.
  const auto page = static_cast<uint32_t>(position) / 256;
  return run.pages[table[0] + page % static_cast<uint32_t>(table[1])];
}
VEERY_GPU VEERY_DEVICE uint8_t* page_of(const VEERY_THREAD Cache& cache,
                                        const VEERY_THREAD Run& run, int sequence,
                                        int64_t position) {
  return cache.data + page_number(cache, run, sequence, position) * cache.page;
}
VEERY_GPU int64_t key_offset(const VEERY_THREAD Cache& cache, int head, int64_t position, int i) {
  const int64_t inside = position % 256;
  return ((head * 16 + inside / 16) * cache.head_dim + i) * 16 + inside % 16;
}
VEERY_GPU int64_t value_offset(const VEERY_THREAD Cache& cache, int head, int64_t position, int i) {
  return (head * 256 + position % 256) * cache.head_dim + i;
}
/// `bytes`: 4 for f32, 2 for bf16, 1 for f16.
VEERY_GPU void store_cache_element(VEERY_DEVICE uint8_t* page, int64_t at, float v, int bytes) {
  if (bytes == 4)
    reinterpret_cast<VEERY_DEVICE float*>(page)[at] = v;
  else
    reinterpret_cast<VEERY_DEVICE uint16_t*>(page)[at] =
        bytes == 2 ? float_to_bf16(v) : float_to_f16(v);
}

/// An element of a q8_0 cache. A tile has 32 dimensions of 16 positions (kernels/common/pages.h).
struct Q8Element {
  VEERY_DEVICE uint16_t* scale;
  VEERY_DEVICE int8_t* code;
};
VEERY_GPU Q8Element q8_element(const VEERY_THREAD Cache& cache, VEERY_DEVICE uint8_t* page,
                               int head, int64_t position, int i, bool keys) {
  constexpr int kTile = 16 * kQ8Bytes;
  const int64_t inside = position % 256;
  VEERY_DEVICE uint8_t* tile =
      page + ((int64_t{head} * 16 + inside / 16) * (cache.head_dim / 32) + i / 32) * kTile;
  const auto offset = static_cast<int>(inside % 16);
  return {reinterpret_cast<VEERY_DEVICE uint16_t*>(tile) + offset,
          reinterpret_cast<VEERY_DEVICE int8_t*>(tile + 32) +
              (keys ? i % 32 * 16 + offset : offset * 32 + i % 32)};
}
/// Stores 32 elements, one per lane of a warp. A number that is not finite makes the scale NaN.
VEERY_GPU void store_q8(const VEERY_THREAD Q8Element& at, float v) {
  const bool poisoned = ballot(!(v - v == 0)) != 0;
  const float max_abs = warp_max(magnitude(v)) / 127;
  const uint16_t stored = poisoned ? uint16_t{0x7e00} : float_to_f16(max_abs);
  const float scale = f16_to_float(stored);
  const float q = min_f32(127.0F, max_f32(-127.0F, v / scale));
  *at.code = static_cast<int8_t>(scale > 0 ? round_to_int(q) : 0);
  if (lane() == 0) *at.scale = stored;
}
/// Stores element i of a head. Called by all lanes of a warp that have an element.
VEERY_GPU void store_element(const VEERY_THREAD Cache& cache, VEERY_DEVICE uint8_t* page, bool keys,
                             int head, int64_t position, int i, float v, int bytes) {
  if (bytes == kQ8Bytes) return store_q8(q8_element(cache, page, head, position, i, keys), v);
  store_cache_element(
      page, keys ? key_offset(cache, head, position, i) : value_offset(cache, head, position, i), v,
      bytes);
}

VEERY_GPU void cache_write(const VEERY_THREAD CacheWriteParams& a VEERY_CONTEXT) {
  wait_for_dependencies();
  const int64_t r = block_x();
  if (r >= a.run.count(a.x.rows)) return;
  const int64_t position = a.run.position(r);
  VEERY_DEVICE uint8_t* page =
      page_of(a.cache, a.run, a.run.spans[a.run.span_of[r]].sequence, position);
  for (int c = thread(); c < a.x.cols; c += threads()) {
    const int head = c / a.cache.head_dim, i = c % a.cache.head_dim;
    store_element(a.cache, page, a.keys != 0, head, position, i, a.x.row(r)[c], a.bytes);
  }
}

}  // namespace veery::gpu
#endif  // VEERY_GPU_CODE

#define VEERY_GPU_KV_CACHE_KERNELS(X) \
  VEERY_GPU_SINGLE(X, kShared, cache_write, CacheWriteParams, 256)
