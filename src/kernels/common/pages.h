// pages.h: memory layout of the paged KV cache, and the positions that a row sees.
#pragma once
#include <algorithm>
#include <type_traits>

#include "kernels/dispatch.h"

namespace veery {

/// Returns the page that holds a position of a sequence.
inline std::byte* page_of(const Operand& cache, const RunShape& shape, int sequence,
                          int64_t position) {
  const PageTable& table = shape.table(cache.group, sequence);
  return cache.data + table.pages[position / kPagePositions % table.count] * cache.stride;
}
/// Returns the offset of dimension 0 of a key in its page, in elements (f32, f16 or bf16).
/// Consecutive dimensions are kLanes elements apart.
inline int64_t key_offset(int64_t kv_head, int64_t position, int64_t head_dim) {
  const int64_t in_page = position % kPagePositions;
  const int64_t tile = kv_head * (kPagePositions / kLanes) + in_page / kLanes;
  return tile * head_dim * kLanes + in_page % kLanes;
}
/// Returns the offset of dimension 0 of a value in its page, in elements. Dimensions are
/// contiguous.
inline int64_t value_offset(int64_t kv_head, int64_t position, int64_t head_dim) {
  return (kv_head * kPagePositions + position % kPagePositions) * head_dim;
}

/// q8_0: 32 dimensions of 16 positions. The scale of a position is the largest magnitude of its 32
/// values, divided by 127 and rounded to f16; a code is x / scale, rounded to nearest even, within
/// +-127.
struct Q8Tile {
  uint16_t scales[kLanes];
  int8_t codes[32 * kLanes];  ///< keys: [dimension][position], values: [position][dimension]
};
static_assert(sizeof(Q8Tile) == kLanes * 34);

/// Returns the first of the head_dim / 32 tiles of a key or value (both layouts).
template <typename Byte>
auto* q8_tiles(Byte* page, int64_t kv_head, int64_t position, int64_t head_dim) {
  using Tile = std::conditional_t<std::is_const_v<Byte>, const Q8Tile, Q8Tile>;
  const int64_t tile = kv_head * (kPagePositions / kLanes) + position % kPagePositions / kLanes;
  return reinterpret_cast<Tile*>(page) + tile * (head_dim / 32);
}
/// Returns the index of dimension i % 32 of a position in Q8Tile::codes.
inline int64_t q8_code(bool keys, int64_t position, int64_t i) {
  return keys ? i % 32 * kLanes + position % kLanes : position % kLanes * 32 + i % 32;
}

/// Positions [first, last] of a sequence.
struct PositionRange {
  int64_t first, last;
};

/// Returns the positions that the row at `position` of a span attends to, by AttendAttr::mask. Both
/// ends are non-decreasing in `position`.
inline PositionRange visible(const AttendAttr& attr, const Span& span, int64_t position) {
  const int64_t window = attr.window, end = span.end_position();
  switch (attr.mask) {
    case Mask::kFull: return {0, end - 1};
    case Mask::kSymmetric:
      return {std::max<int64_t>(position - window, 0), std::min(position + window, end - 1)};
    case Mask::kPrefix: return {0, std::max(position, std::min<int64_t>(span.visible, end) - 1)};
    case Mask::kSource: return {0, span.visible - 1};
    case Mask::kCausal: break;
  }
  if (attr.chunked && window > 0) return {position / window * window, position};
  return {window > 0 && position >= window ? position - window + 1 : 0, position};
}

}  // namespace veery
