// attend_tiles-inl.h: the two products of attention over the positions of a block, on caches of
// every type: queries by keys and weights by values. What is stored becomes f32 in registers.
#if defined(VEERY_KERNELS_CPU_ATTEND_TILES_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef VEERY_KERNELS_CPU_ATTEND_TILES_INL_H
#undef VEERY_KERNELS_CPU_ATTEND_TILES_INL_H
#else
#define VEERY_KERNELS_CPU_ATTEND_TILES_INL_H
#endif

#include <cstddef>
#include <cstring>

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

// What a stage of transpose() takes from two rows, lane by lane: blocks of kStep lanes change
// places.
template <int kStep, bool kSecond>
constexpr int taken(int lane) {
  const bool high = (lane & kStep) != 0;
  if constexpr (kSecond) return high ? 16 + lane : lane + kStep;
  return high ? 16 + lane - kStep : lane;
}
using Lanes = float __attribute__((vector_size(64)));
template <int kStep, bool kSecond, int... kLane>
HWY_INLINE void take_lanes(const Lanes& a, const Lanes& b, std::integer_sequence<int, kLane...>,
                           Lanes& out) {
  out = __builtin_shufflevector(a, b, taken<kStep, kSecond>(kLane)...);
}
template <int kStep>
HWY_INLINE void transpose_stage(Lanes* rows) {
  constexpr auto kAll = std::make_integer_sequence<int, 16>{};
#pragma GCC unroll 16
  for (int i = 0; i < 16; ++i) {
    if ((i & kStep) != 0) continue;
    const Lanes a = rows[i];
    const Lanes b = rows[i + kStep];
    take_lanes<kStep, false>(a, b, kAll, rows[i]);
    take_lanes<kStep, true>(a, b, kAll, rows[i + kStep]);
  }
}
// out[c * stride + r] = x[r * 16 + c] of 16 x 16 values.
HWY_NOINLINE void transpose(const float* x, float* out, int64_t stride) {
  Lanes rows[16];
  std::memcpy(rows, x, sizeof(rows));
  transpose_stage<8>(rows);
  transpose_stage<4>(rows);
  transpose_stage<2>(rows);
  transpose_stage<1>(rows);
#pragma GCC unroll 16
  for (int i = 0; i < 16; ++i) std::memcpy(out + i * stride, &rows[i], sizeof(Lanes));
}

// Of 16 positions.
template <DType kType>
constexpr int64_t tile_bytes(int n) {
  return kType == DType::kQ8_0 ? static_cast<int64_t>(n / 32 * sizeof(Q8Tile))
                               : int64_t{16} * n * kBytes<kType>;
}

// The keys or values of a block that some queries see.
struct BlockPart {
  const std::byte* at;  // of the block
  int64_t ahead;        // bytes from there to the block that comes next, which is fetched meanwhile
  int n;                // head_dim
  int first, end;       // tiles of keys, positions of values
};

// Into L2: it is a block's time until they are needed.
HWY_INLINE void fetch(const std::byte* at) { __builtin_prefetch(at, 0, 2); }

// acc[r][t][lane] = chain over `count` dimensions i of q[r][i] * keys[t][i][lane], `step` bytes
// from tile to tile.
template <DType kType, int R, int T>
HWY_INLINE void score_chain(const float* q, const BlockPart& keys, const std::byte* at,
                            int64_t step, int count, F32 (&acc)[R][T]) {
  constexpr int kVector = 16 * kBytes<kType>;
#pragma GCC unroll 8
  for (int r = 0; r < R; ++r)
#pragma GCC unroll 8
    for (int t = 0; t < T; ++t) acc[r][t] = zero();
  for (int line = 0; line < count; line += 64 / kVector) {
#pragma GCC unroll 8
    for (int t = 0; t < T; ++t) fetch(at + keys.ahead + t * step + line * kVector);
#pragma GCC unroll 4
    for (int i = line; i < line + 64 / kVector; ++i) {
      F32 k[T];
#pragma GCC unroll 8
      for (int t = 0; t < T; ++t) k[t] = load_as<kType>(at + t * step + i * kVector);
#pragma GCC unroll 8
      for (int r = 0; r < R; ++r) {
        const F32 x = set(q[r * keys.n + i]);
#pragma GCC unroll 8
        for (int t = 0; t < T; ++t) acc[r][t] = fma(x, k[t], acc[r][t]);
      }
    }
  }
}

// Scores of T tiles of keys. q8_0: a chain over each 32 dimensions of products with the codes, and
// one over these sums times their scale.
template <DType kType, int R, int T>
HWY_INLINE void score_tiles(const float* q, const BlockPart& keys, int tile, float* scores) {
  F32 acc[R][T];
  const int64_t step = tile_bytes<kType>(keys.n);
  const std::byte* at = keys.at + tile * step;
  scores += tile * 16;
  if constexpr (kType != DType::kQ8_0) {
    score_chain<kType>(q, keys, at, step, keys.n, acc);
#pragma GCC unroll 8
    for (int r = 0; r < R; ++r)
#pragma GCC unroll 8
      for (int t = 0; t < T; ++t) store(scores + r * kBlock + t * 16, acc[r][t]);
  } else {
    for (int b = 0; b < keys.n / 32; ++b, at += sizeof(Q8Tile)) {
      score_chain<kType>(q + 32 * b, keys, at + offsetof(Q8Tile, codes), step, 32, acc);
#pragma GCC unroll 8
      for (int t = 0; t < T; ++t) {
        const F32 scale = load_f16(at + t * step);
#pragma GCC unroll 8
        for (int r = 0; r < R; ++r) {
          float* to = scores + r * kBlock + t * 16;
          store(to, b == 0 ? mul(acc[r][t], scale) : fma(acc[r][t], scale, load(to)));
        }
      }
    }
  }
}

// Scores [r][position] of R queries.
template <DType kType, int R>
HWY_NOINLINE void score_block(const float* q, const BlockPart& keys, float* scores) {
  constexpr int kAtOnce = tiles_at_once(R);
  int t = keys.first;
  for (; t + kAtOnce <= keys.end; t += kAtOnce) score_tiles<kType, R, kAtOnce>(q, keys, t, scores);
  for (; t < keys.end; ++t) score_tiles<kType, R, 1>(q, keys, t, scores);
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
HWY_INLINE void value_chain(const float* weights, int row, const BlockPart& values,
                            const std::byte* at, int64_t step, F32 (&acc)[R][D]) {
  constexpr int kVector = 16 * kBytes<kType>;
  for (int p = values.first; p < values.end; ++p) {
    if constexpr (kType != DType::kQ8_0) {
#pragma GCC unroll 8
      for (int line = 0; line < D * kVector; line += 64) fetch(at + values.ahead + p * step + line);
    }
    F32 v[D];
#pragma GCC unroll 8
    for (int c = 0; c < D; ++c) v[c] = load_as<kType>(at + p * step + c * kVector);
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
HWY_INLINE void value_tiles(const float* weights, const BlockPart& values, int dim,
                            const float* factors, float* states) {
  const int n = values.n;
  F32 acc[R][D];
#pragma GCC unroll 8
  for (int r = 0; r < R; ++r)
#pragma GCC unroll 8
    for (int c = 0; c < D; ++c) acc[r][c] = zero();
  if constexpr (kType != DType::kQ8_0) {
    value_chain<kType>(weights, kBlock, values, values.at + dim * kBytes<kType>,
                       int64_t{n} * kBytes<kType>, acc);
  } else {
    for (int t = values.first / 16; t * 16 < values.end; ++t) {
      const std::byte* tile =
          values.at + t * tile_bytes<kType>(n) + dim / 32 * static_cast<int64_t>(sizeof(Q8Tile));
      for (size_t line = 0; line < sizeof(Q8Tile); line += 64) fetch(tile + values.ahead + line);
      const F32 scale = load_f16(tile);
      alignas(64) float scaled[R * 16];
#pragma GCC unroll 8
      for (int r = 0; r < R; ++r)
        store(scaled + r * 16, mul(load(weights + r * kBlock + t * 16), scale));
      BlockPart part = values;
      part.first = std::max(values.first - t * 16, 0);
      part.end = std::min(values.end - t * 16, 16);
      value_chain<kType>(scaled, 16, part, tile + offsetof(Q8Tile, codes) + dim % 32, 32, acc);
    }
  }
  update_states(acc, factors, n, states + dim);
}

// The same for all dimensions.
template <DType kType, int R>
HWY_NOINLINE void value_block(const float* weights, const BlockPart& values, const float* factors,
                              float* states) {
  constexpr int kMost = kType == DType::kQ8_0 ? 2 : 8;
  constexpr int kAtOnce = std::min(tiles_at_once(R), kMost);
  int c = 0;
  for (; c + kAtOnce * 16 <= values.n; c += kAtOnce * 16)
    value_tiles<kType, R, kAtOnce>(weights, values, c, factors, states);
  for (; c < values.n; c += 16) value_tiles<kType, R, 1>(weights, values, c, factors, states);
}

using ScoreFn = void (*)(const float*, const BlockPart&, float*);
using ValueFn = void (*)(const float*, const BlockPart&, const float*, float*);
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
