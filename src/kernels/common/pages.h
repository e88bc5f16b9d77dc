// pages.h: where an element of a cache lies.
#pragma once
#include "kernels/dispatch.h"

namespace veery {

inline std::byte* page_of(const Operand& cache, const Slots& slots, int sequence,
                          int64_t position) {
  const PageTable& table = slots.table(cache.group, sequence);
  return cache.data + table.pages[position / kPagePositions % table.count] * cache.stride;
}
/// Elements from the start of a page to dimension 0 of a key; the next dimension is kLanes further.
inline int64_t key_offset(int64_t kv_head, int64_t position, int64_t head_dim) {
  const int64_t in_page = position % kPagePositions;
  const int64_t tile = kv_head * (kPagePositions / kLanes) + in_page / kLanes;
  return tile * head_dim * kLanes + in_page % kLanes;
}
/// Elements from the start of a page to dimension 0 of a value; the next dimension is 1 further.
inline int64_t value_offset(int64_t kv_head, int64_t position, int64_t head_dim) {
  return (kv_head * kPagePositions + position % kPagePositions) * head_dim;
}
/// The first position that a row at `position` sees.
inline int64_t first_visible(int64_t position, int window) {
  return window > 0 && position >= window ? position - window + 1 : 0;
}

}  // namespace veery
