// cache_element.h: plain access to one head of one position in the pages of a KV cache.
#pragma once
#include <algorithm>
#include <cmath>

#include "dtype/half.h"
#include "kernels/common/pages.h"

namespace veery {

/// The location of a head of a position.
struct CachedHead {
  const Operand& cache;
  std::byte* page;
  int64_t kv_head;
  int64_t position;
  int64_t head_dim = cache.cols / cache.rows;
  bool keys = cache.layout == Layout::kKeyPages;

  int64_t element(int64_t i) const {
    return keys ? key_offset(kv_head, position, head_dim) + i * kLanes
                : value_offset(kv_head, position, head_dim) + i;
  }
  template <typename T>
  T& at(int64_t i) const {
    return reinterpret_cast<T*>(page)[element(i)];
  }
  Q8Tile& tile(int64_t i) const { return q8_tiles(page, kv_head, position, head_dim)[i / 32]; }
};

inline float read_cached(const CachedHead& head, int64_t i) {
  switch (head.cache.dtype) {
    case DType::kF16: return f16_to_f32(head.at<uint16_t>(i));
    case DType::kBF16: return bf16_to_f32(head.at<uint16_t>(i));
    case DType::kQ8_0: {
      const Q8Tile& tile = head.tile(i);
      return f16_to_f32(tile.scales[head.position % kLanes]) *
             static_cast<float>(tile.codes[q8_code(head.keys, head.position, i)]);
    }
    default: return head.at<float>(i);
  }
}

/// Quantises 32 elements from element i on. If an element is not finite, the scale becomes NaN.
inline void write_q8_block(const CachedHead& head, int64_t i, const float* x) {
  float largest = 0;
  float poison = 0;
  for (int k = 0; k < 32; ++k) {
    largest = std::max(largest, std::abs(x[k]));
    poison += x[k] - x[k];
  }
  Q8Tile& tile = head.tile(i);
  const uint16_t stored = f32_to_f16(largest / 127 + poison);
  const float scale = f16_to_f32(stored);
  tile.scales[head.position % kLanes] = stored;
  for (int k = 0; k < 32; ++k) {
    const float code = std::nearbyint(x[k] / scale);
    tile.codes[q8_code(head.keys, head.position, i + k)] =
        scale > 0 ? static_cast<int8_t>(std::clamp(code, -127.0F, 127.0F)) : int8_t{0};
  }
}

inline void write_cached(const CachedHead& head, const float* x) {
  switch (head.cache.dtype) {
    case DType::kF16:
      for (int64_t i = 0; i < head.head_dim; ++i) head.at<uint16_t>(i) = f32_to_f16(x[i]);
      return;
    case DType::kBF16:
      for (int64_t i = 0; i < head.head_dim; ++i) head.at<uint16_t>(i) = f32_to_bf16(x[i]);
      return;
    case DType::kQ8_0:
      for (int64_t i = 0; i < head.head_dim; i += 32) write_q8_block(head, i, x + i);
      return;
    default:
      for (int64_t i = 0; i < head.head_dim; ++i) head.at<float>(i) = x[i];
  }
}

}  // namespace veery
