#include "kernels/cpu/attend/gather_keys.h"

#include "dtype/half.h"
#include "kernels/common/pages.h"

namespace veery::attend {
namespace {

// to[i * kLanes] = of(i) for each dimension i.
template <typename Of>
void fill(int64_t head_dim, float* to, const Of& of) {
  for (int64_t i = 0; i < head_dim; ++i) to[i * kLanes] = of(i);
}

void gather_key(const Operand& cache, std::byte* page, int64_t kv_head, int64_t position,
                float* to) {
  const int64_t n = cache.cols / cache.rows;
  if (cache.dtype == DType::kQ8_0) {
    const Q8Tile* tiles = q8_tiles(page, kv_head, position, n);
    const int64_t lane = position % kLanes;
    return fill(n, to, [&](int64_t i) {
      const Q8Tile& tile = tiles[i / 32];
      return static_cast<float>(tile.codes[q8_code(true, position, i)]) *
             f16_to_f32(tile.scales[lane]);
    });
  }
  const int64_t first = key_offset(kv_head, position, n);
  const auto* halves = reinterpret_cast<const uint16_t*>(page) + first;
  const auto* floats = reinterpret_cast<const float*>(page) + first;
  if (cache.dtype == DType::kBF16)
    return fill(n, to, [&](int64_t i) { return bf16_to_f32(halves[i * kLanes]); });
  if (cache.dtype == DType::kF16)
    return fill(n, to, [&](int64_t i) { return f16_to_f32(halves[i * kLanes]); });
  fill(n, to, [&](int64_t i) { return floats[i * kLanes]; });
}

}  // namespace

void gather_keys(const Operand& cache, const RunShape& shape, int sequence, int64_t kv_head,
                 const int32_t* positions, int count, float* out) {
  const int64_t n = cache.cols / cache.rows;
  for (int64_t i = 0; i < (count + kLanes - 1) / kLanes * kLanes; ++i) {
    float* to = out + i / kLanes * n * kLanes + i % kLanes;
    if (i < count)
      gather_key(cache, page_of(cache, shape, sequence, positions[i]), kv_head, positions[i], to);
    else
      fill(n, to, [](int64_t) { return 0.0F; });
  }
}

}  // namespace veery::attend
