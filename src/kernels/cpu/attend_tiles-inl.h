// attend_tiles-inl.h: the two products of attention over the positions of a block, on caches of
// every type: queries by keys and weights by values. What is stored becomes f32 in registers.
#if defined(VEERY_KERNELS_CPU_ATTEND_TILES_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef VEERY_KERNELS_CPU_ATTEND_TILES_INL_H
#undef VEERY_KERNELS_CPU_ATTEND_TILES_INL_H
#else
#define VEERY_KERNELS_CPU_ATTEND_TILES_INL_H
#endif

#include "kernels/cpu/attend.h"
#include "kernels/cpu/simd-inl.h"

#if VEERY_F32_TARGET
HWY_BEFORE_NAMESPACE();
namespace veery {
namespace HWY_NAMESPACE {
namespace {
using namespace attend;  // NOLINT(google-build-using-namespace)

// Registers: 32 vectors of 16 lanes, or 16 of 8.
constexpr bool kWide = HWY_TARGET == HWY_AVX3;
constexpr int kMaxQueries = 6;
constexpr int tiles_at_once(int queries) {
  return kWide ? (queries <= 2 ? 8 : 4) : (queries == 1 ? 4 : queries <= 3 ? 2 : 1);
}

// 16 stored elements as f32.
template <DType kType>
HWY_INLINE F32 load_as(const std::byte* p) {
  if constexpr (kType == DType::kF32)
    return load(reinterpret_cast<const float*>(p));
  else if constexpr (kType == DType::kF16)
    return load_f16(p);
  else if constexpr (kType == DType::kBF16)
    return load_bf16(p);
  else
    return to_float(load_i8(p));
}
template <DType kType>
constexpr int kBytes = kType == DType::kF32    ? 4
                       : kType == DType::kQ8_0 ? 1
                                               : 2;

// acc[r][t][lane] = chain over `count` dimensions i of q[r][i] * keys[t][i][lane], `step` bytes
// from tile to tile.
template <DType kType, int R, int T>
HWY_INLINE void score_chain(const float* q, int n, const std::byte* keys, int64_t step, int count,
                            F32 (&acc)[R][T]) {
#pragma GCC unroll 8
  for (int r = 0; r < R; ++r)
#pragma GCC unroll 8
    for (int t = 0; t < T; ++t) acc[r][t] = zero();
  for (int i = 0; i < count; ++i) {
    F32 k[T];
#pragma GCC unroll 8
    for (int t = 0; t < T; ++t) k[t] = load_as<kType>(keys + t * step + i * 16 * kBytes<kType>);
#pragma GCC unroll 8
    for (int r = 0; r < R; ++r) {
      const F32 x = set(q[r * n + i]);
#pragma GCC unroll 8
      for (int t = 0; t < T; ++t) acc[r][t] = fma(x, k[t], acc[r][t]);
    }
  }
}

// Scores of T tiles of keys. q8_0: a chain over each 32 dimensions of products with the codes, and
// one over these sums times their scale.
template <DType kType, int R, int T>
HWY_INLINE void score_tiles(const float* q, const std::byte* keys, int n, float* scores) {
  F32 acc[R][T];
  if constexpr (kType != DType::kQ8_0) {
    score_chain<kType>(q, n, keys, int64_t{16} * n * kBytes<kType>, n, acc);
#pragma GCC unroll 8
    for (int r = 0; r < R; ++r)
#pragma GCC unroll 8
      for (int t = 0; t < T; ++t) store(scores + r * kBlock + t * 16, acc[r][t]);
  } else {
    const auto* tiles = reinterpret_cast<const Q8Tile*>(keys);
    for (int b = 0; b < n / 32; ++b) {
      score_chain<kType>(q + 32 * b, n, reinterpret_cast<const std::byte*>(tiles[b].codes),
                         static_cast<int64_t>(n / 32 * sizeof(Q8Tile)), 32, acc);
#pragma GCC unroll 8
      for (int t = 0; t < T; ++t) {
        const F32 scale = load_f16(tiles[t * (n / 32) + b].scales);
#pragma GCC unroll 8
        for (int r = 0; r < R; ++r) {
          float* to = scores + r * kBlock + t * 16;
          store(to, b == 0 ? mul(acc[r][t], scale) : fma(acc[r][t], scale, load(to)));
        }
      }
    }
  }
}

// Scores [r][position] of R queries with the tiles [first, end) of a block, of which `keys` is the
// first tile.
template <DType kType, int R>
HWY_NOINLINE void score_block(const float* q, const std::byte* keys, int n, int first, int end,
                              float* scores) {
  constexpr int kAtOnce = tiles_at_once(R);
  const int64_t tile = kType == DType::kQ8_0 ? static_cast<int64_t>(n / 32 * sizeof(Q8Tile))
                                             : int64_t{16} * n * kBytes<kType>;
  int t = first;
  for (; t + kAtOnce <= end; t += kAtOnce)
    score_tiles<kType, R, kAtOnce>(q, keys + t * tile, n, scores + t * 16);
  for (; t < end; ++t) score_tiles<kType, R, 1>(q, keys + t * tile, n, scores + t * 16);
}

// state = state * factors[0] + factors[1] * acc, D * 16 dimensions.
template <int R, int D>
HWY_INLINE void update_states(const F32 (&acc)[R][D], const float* factors, int n, float* states) {
#pragma GCC unroll 8
  for (int r = 0; r < R; ++r)
#pragma GCC unroll 8
    for (int c = 0; c < D; ++c) {
      float* at = states + r * (kStateHeader + n) + c * 16;
      const F32 kept = mul(load(at), set(factors[2 * r]));
      store(at, fma(acc[r][c], set(factors[2 * r + 1]), kept));
    }
}

// acc[r][c] += chain over the positions [first, end) of weights[r][p] * values[p][c]; `step` bytes
// from position to position, `row` weights from query to query.
template <DType kType, int R, int D>
HWY_INLINE void value_chain(const float* weights, int row, const std::byte* values, int64_t step,
                            int first, int end, F32 (&acc)[R][D]) {
  for (int p = first; p < end; ++p) {
    F32 v[D];
#pragma GCC unroll 8
    for (int c = 0; c < D; ++c) v[c] = load_as<kType>(values + p * step + c * 16 * kBytes<kType>);
#pragma GCC unroll 8
    for (int r = 0; r < R; ++r) {
      const F32 w = set(weights[r * row + p]);
#pragma GCC unroll 8
      for (int c = 0; c < D; ++c) acc[r][c] = fma(w, v[c], acc[r][c]);
    }
  }
}

// Merges the weighted values of D * 16 dimensions, from dimension `dim`, into the states. q8_0:
// products of the codes with weight times scale.
template <DType kType, int R, int D>
HWY_INLINE void value_tiles(const float* weights, const std::byte* values, int n, int dim,
                            int first, int end, const float* factors, float* states) {
  F32 acc[R][D];
#pragma GCC unroll 8
  for (int r = 0; r < R; ++r)
#pragma GCC unroll 8
    for (int c = 0; c < D; ++c) acc[r][c] = zero();
  if constexpr (kType != DType::kQ8_0) {
    value_chain<kType>(weights, kBlock, values + dim * kBytes<kType>, int64_t{n} * kBytes<kType>,
                       first, end, acc);
  } else {
    for (int t = first / 16; t * 16 < end; ++t) {
      const Q8Tile& tile = reinterpret_cast<const Q8Tile*>(values)[t * (n / 32) + dim / 32];
      const F32 scale = load_f16(tile.scales);
      alignas(64) float scaled[R * 16];
#pragma GCC unroll 8
      for (int r = 0; r < R; ++r)
        store(scaled + r * 16, mul(load(weights + r * kBlock + t * 16), scale));
      value_chain<kType>(scaled, 16, reinterpret_cast<const std::byte*>(tile.codes) + dim % 32, 32,
                         std::max(first - t * 16, 0), std::min(end - t * 16, 16), acc);
    }
  }
  update_states(acc, factors, n, states + dim);
}

// The same for all dimensions.
template <DType kType, int R>
HWY_NOINLINE void value_block(const float* weights, const std::byte* values, int n, int first,
                              int end, const float* factors, float* states) {
  constexpr int kMost = kType == DType::kQ8_0 ? 2 : 8;
  constexpr int kAtOnce = tiles_at_once(R) < kMost ? tiles_at_once(R) : kMost;
  int c = 0;
  for (; c + kAtOnce * 16 <= n; c += kAtOnce * 16)
    value_tiles<kType, R, kAtOnce>(weights, values, n, c, first, end, factors, states);
  for (; c < n; c += 16)
    value_tiles<kType, R, 1>(weights, values, n, c, first, end, factors, states);
}

using ScoreFn = void (*)(const float*, const std::byte*, int, int, int, float*);
using ValueFn = void (*)(const float*, const std::byte*, int, int, int, const float*, float*);
struct BlockKernels {
  ScoreFn score[kMaxQueries];
  ValueFn value[kMaxQueries];
};
template <DType kType>
constexpr BlockKernels kBlockKernels = {
    {score_block<kType, 1>, score_block<kType, 2>, score_block<kType, 3>, score_block<kType, 4>,
     score_block<kType, 5>, score_block<kType, 6>},
    {value_block<kType, 1>, value_block<kType, 2>, value_block<kType, 3>, value_block<kType, 4>,
     value_block<kType, 5>, value_block<kType, 6>}};

HWY_INLINE const BlockKernels& block_kernels(DType type) {
  switch (type) {
    case DType::kF16: return kBlockKernels<DType::kF16>;
    case DType::kBF16: return kBlockKernels<DType::kBF16>;
    case DType::kQ8_0: return kBlockKernels<DType::kQ8_0>;
    default: return kBlockKernels<DType::kF32>;
  }
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace veery
HWY_AFTER_NAMESPACE();
#endif

#endif  // VEERY_KERNELS_CPU_ATTEND_TILES_INL_H
