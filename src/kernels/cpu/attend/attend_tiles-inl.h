// attend_tiles-inl.h: the microkernels of attention: queries times keys and weights times values of
// a block of positions, for KV caches of every type. Elements are converted in registers.
#if defined(VEERY_KERNELS_CPU_ATTEND_TILES_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef VEERY_KERNELS_CPU_ATTEND_TILES_INL_H
#undef VEERY_KERNELS_CPU_ATTEND_TILES_INL_H
#else
#define VEERY_KERNELS_CPU_ATTEND_TILES_INL_H
#endif

#include <cstddef>
#include <cstring>

#include "kernels/cpu/attend/attend.h"
#include "kernels/cpu/simd/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace veery {
namespace HWY_NAMESPACE {
namespace {
using namespace attend;  // NOLINT(google-build-using-namespace)

// Whether the target has 32 registers of 16 lanes; others have 16 registers of 8 lanes.
constexpr bool kWide = HWY_TARGET == HWY_AVX3;
constexpr int kMaxQueries = 6;
// Register blocking: returns the tiles of 16 positions or dimensions per pass.
constexpr int tiles_at_once(int queries) {
  return kWide ? (queries <= 2 ? 8 : 4) : (queries == 1 ? 4 : queries <= 3 ? 2 : 1);
}

// The formats of keys and values that the microkernels read, and how they multiply them.
enum class KvFormat {
  kF32,
  kF16,
  kBF16,
  kQ8_0,
  // bf16 products by fma in pairs of dimensions or positions; the odd one is added first:
  kRoundedF32,   // bf16 converted to f32
  kRoundedBF16,  // as in the cache
  // bf16 products by dot product instructions, which multiply such a pair at once:
  kPairs,    // converted: the two elements of a pair in one dword
  kDotBF16,  // as in the cache
};
HWY_INLINE KvFormat kv_format(DType stored, Products products) {
  switch (stored) {
    case DType::kF16: return KvFormat::kF16;
    case DType::kQ8_0: return KvFormat::kQ8_0;
    case DType::kBF16:
      return products == Products::kExact     ? KvFormat::kBF16
             : products == Products::kRounded ? KvFormat::kRoundedBF16
                                              : KvFormat::kDotBF16;
    default: return KvFormat::kF32;
  }
}
constexpr bool is_dot(KvFormat format) {
  return format == KvFormat::kPairs || format == KvFormat::kDotBF16;
}
// Whether pairs of elements are multiplied together or with the odd one first.
constexpr bool in_pairs(KvFormat format) {
  return is_dot(format) || format == KvFormat::kRoundedF32 || format == KvFormat::kRoundedBF16;
}
template <KvFormat kFormat>
constexpr int kBytes = kFormat == KvFormat::kF32 || kFormat == KvFormat::kRoundedF32 ? 4
                       : kFormat == KvFormat::kQ8_0                                  ? 1
                                                                                     : 2;

// Bytes of a vector: 16 dimensions, or 16 pairs.
template <KvFormat kFormat>
constexpr int kVector = kFormat == KvFormat::kPairs ? 64 : 16 * kBytes<kFormat>;
// Dimensions or positions per accumulation step.
template <KvFormat kFormat>
constexpr int kTaken = is_dot(kFormat) ? 2 : 1;
template <KvFormat kFormat>
constexpr int kOddFirst = in_pairs(kFormat) && !is_dot(kFormat) ? 1 : 0;
// Whether a format is read from the cache; converted blocks need no prefetch.
constexpr bool is_stored(KvFormat format) {
  return format != KvFormat::kRoundedF32 && format != KvFormat::kPairs;
}

// Loads 16 elements as f32.
template <KvFormat kFormat>
HWY_INLINE F32 load_as(const std::byte* p) {
  if constexpr (kFormat == KvFormat::kF32 || kFormat == KvFormat::kRoundedF32)
    return load(reinterpret_cast<const float*>(p));
  else if constexpr (kFormat == KvFormat::kF16)
    return load_f16(p);
  else if constexpr (kFormat == KvFormat::kQ8_0)
    return to_float(load_i8(p));
  else
    return load_bf16(p);
}

// Loads 16 pairs of bf16, the even elements in the lower halves.
HWY_INLINE I32 load_pairs(const std::byte* even, const std::byte* odd) {
  return bit_or(bits(load_bf16(odd)), shr<16>(bits(load_bf16(even))));
}
HWY_INLINE I32 pair_at(const float* pairs, int i) {
  int32_t pair;
  std::memcpy(&pair, pairs + i, sizeof(pair));
  return set(pair);
}
#if HWY_TARGET != HWY_AVX3
// Never called: kDotBF16 is used on AVX-512 only.
HWY_INLINE F32 dot2_bf16(F32 sum, I32, I32) { return sum; }
#endif

// Returns the shuffle index of a lane in a stage of transpose(), which exchanges blocks of kStep
// lanes between two rows.
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
// out[c * out_stride + r] = x[r * stride + c] for 16 x 16 values.
[[maybe_unused]] HWY_NOINLINE void transpose(const float* x, int64_t stride, float* out,
                                             int64_t out_stride) {
  Lanes rows[16];
#pragma GCC unroll 16
  for (int i = 0; i < 16; ++i) std::memcpy(&rows[i], x + i * stride, sizeof(Lanes));
  transpose_stage<8>(rows);
  transpose_stage<4>(rows);
  transpose_stage<2>(rows);
  transpose_stage<1>(rows);
#pragma GCC unroll 16
  for (int i = 0; i < 16; ++i) std::memcpy(out + i * out_stride, &rows[i], sizeof(Lanes));
}

// Bytes of the keys of 16 positions with n dimensions.
template <KvFormat kFormat>
constexpr int64_t tile_bytes(int n) {
  return kFormat == KvFormat::kQ8_0 ? static_cast<int64_t>(n / 32 * sizeof(Q8Tile))
                                    : int64_t{16} * n * kBytes<kFormat>;
}

// The visible range of the keys or values of a block.
struct BlockPart {
  const std::byte* at;  // beginning of the block
  int64_t ahead;        // prefetch distance: bytes from `at` to the next block
  int n;                // head dimension
  int first, end;       // range: tiles of keys, positions of values
};

// Prefetches into L2, since the data is needed one block later.
HWY_INLINE void fetch(const std::byte* at) { __builtin_prefetch(at, 0, 2); }

// Loads vector i (or pair i) of vectors that are `stride` bytes apart.
template <KvFormat kFormat>
HWY_INLINE auto vector_at(const std::byte* at, int64_t stride, int i) {
  if constexpr (kFormat == KvFormat::kPairs)
    return load_int(at + 2 * i * stride);
  else if constexpr (kFormat == KvFormat::kDotBF16)
    return load_pairs(at + 2 * i * stride, at + (2 * i + 1) * stride);
  else
    return load_as<kFormat>(at + i * stride);
}
// Loads the factor of vector i, broadcast to all lanes.
template <KvFormat kFormat>
HWY_INLINE auto factor_at(const float* factors, int i) {
  if constexpr (is_dot(kFormat))
    return pair_at(factors, i);
  else
    return set(factors[i]);
}
HWY_INLINE F32 add_product(F32 sum, F32 a, F32 b) { return fma(a, b, sum); }
HWY_INLINE F32 add_product(F32 sum, I32 a, I32 b) { return dot2_bf16(sum, a, b); }

// acc[r][t] = sum over `count` dimensions i, accumulated sequentially, of q[r][i] *
// keys[t][i][lane]. Tiles are `step` bytes apart.
template <KvFormat kFormat, int R, int T>
HWY_INLINE void accumulate_scores(const float* q, const BlockPart& keys, const std::byte* at,
                                  int64_t step, int count, F32 (&acc)[R][T]) {
  constexpr int kDimension = 16 * kBytes<kFormat>;
  constexpr int kBytesTaken = kDimension * kTaken<kFormat>;
  constexpr int kLine = 64 / kBytesTaken;
#pragma GCC unroll 8
  for (int r = 0; r < R; ++r)
#pragma GCC unroll 8
    for (int t = 0; t < T; ++t) acc[r][t] = zero();
  for (int line = 0; line < count / kTaken<kFormat>; line += kLine) {
    if constexpr (is_stored(kFormat)) {
#pragma GCC unroll 8
      for (int t = 0; t < T; ++t) fetch(at + keys.ahead + t * step + line * kBytesTaken);
    }
#pragma GCC unroll 4
    for (int l = 0; l < kLine; ++l) {
      const int i = (line + l) ^ kOddFirst<kFormat>;
      decltype(vector_at<kFormat>(at, kDimension, i)) k[T];
#pragma GCC unroll 8
      for (int t = 0; t < T; ++t) k[t] = vector_at<kFormat>(at + t * step, kDimension, i);
#pragma GCC unroll 8
      for (int r = 0; r < R; ++r) {
        const auto x = factor_at<kFormat>(q + r * keys.n, i);
#pragma GCC unroll 8
        for (int t = 0; t < T; ++t) acc[r][t] = add_product(acc[r][t], x, k[t]);
      }
    }
  }
}

// Computes the scores of T tiles of keys for R queries. q8_0: products with the codes are
// accumulated over each 32 dimensions, then these sums times their scale are accumulated.
template <KvFormat kFormat, int R, int T>
HWY_INLINE void score_tiles(const float* q, const BlockPart& keys, int tile, float* scores) {
  F32 acc[R][T];
  const int64_t step = tile_bytes<kFormat>(keys.n);
  const std::byte* at = keys.at + tile * step;
  scores += tile * 16;
  if constexpr (kFormat != KvFormat::kQ8_0) {
    accumulate_scores<kFormat>(q, keys, at, step, keys.n, acc);
#pragma GCC unroll 8
    for (int r = 0; r < R; ++r)
#pragma GCC unroll 8
      for (int t = 0; t < T; ++t) store(scores + r * kBlock + t * 16, acc[r][t]);
  } else {
    for (int b = 0; b < keys.n / 32; ++b, at += sizeof(Q8Tile)) {
      accumulate_scores<kFormat>(q + 32 * b, keys, at + offsetof(Q8Tile, codes), step, 32, acc);
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

// Computes scores[r][position] of R queries.
template <KvFormat kFormat, int R>
HWY_NOINLINE void score_block(const float* q, const BlockPart& keys, float* scores) {
  constexpr int kAtOnce = tiles_at_once(R);
  int t = keys.first;
  for (; t + kAtOnce <= keys.end; t += kAtOnce)
    score_tiles<kFormat, R, kAtOnce>(q, keys, t, scores);
  for (; t < keys.end; ++t) score_tiles<kFormat, R, 1>(q, keys, t, scores);
}

// states[r] = states[r] * factors[r][0] + factors[r][1] * acc[r], for D * 16 dimensions.
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

// acc[r][c] += weights[r][i] * values[i][c], for position i or the pair i of positions.
template <KvFormat kFormat, int R, int D>
HWY_INLINE void add_values(const float* weights, int row, const std::byte* at, int64_t step, int i,
                           F32 (&acc)[R][D]) {
  decltype(vector_at<kFormat>(at, step, i)) v[D];
#pragma GCC unroll 8
  for (int c = 0; c < D; ++c) v[c] = vector_at<kFormat>(at + c * kVector<kFormat>, step, i);
#pragma GCC unroll 8
  for (int r = 0; r < R; ++r) {
    const auto w = factor_at<kFormat>(weights + r * row, i);
#pragma GCC unroll 8
    for (int c = 0; c < D; ++c) acc[r][c] = add_product(acc[r][c], w, v[c]);
  }
}

// The same for a pair of which only `position` is in the range; the other one has weight 0.
template <KvFormat kFormat, int R, int D>
HWY_INLINE void add_half_pair(const float* weights, int row, const std::byte* at, int64_t step,
                              int position, F32 (&acc)[R][D]) {
  alignas(64) std::byte pair[2][D * 32] = {};
  std::memcpy(pair[position % 2], at + position * step, sizeof(pair[0]));
  const float* first = weights + position / 2 * (is_dot(kFormat) ? 1 : 2);
  if constexpr (!is_dot(kFormat)) add_values<kFormat>(first, row, pair[0], sizeof(pair[0]), 1, acc);
  add_values<kFormat>(first, row, pair[0], sizeof(pair[0]), 0, acc);
}

// acc[r][c] += weights[r][p] * values[p][c], accumulated sequentially over positions [first, end).
// Positions are `step` bytes apart; the weights of consecutive queries are `row` floats apart.
template <KvFormat kFormat, int R, int D>
HWY_INLINE void accumulate_values(const float* weights, int row, const BlockPart& values,
                                  const std::byte* at, int64_t step, F32 (&acc)[R][D]) {
  constexpr int kRow = D * 16 * kBytes<kFormat>;
  constexpr bool kHalves = is_stored(kFormat) && in_pairs(kFormat);
  int first = values.first;
  const int end = in_pairs(kFormat) ? values.end / 2 * 2 : values.end;
  if constexpr (kHalves) {
    if (first % 2 != 0) add_half_pair<kFormat>(weights, row, at, step, first++, acc);
  }
  for (int i = first / kTaken<kFormat>; i < end / kTaken<kFormat>; ++i) {
    if constexpr (is_stored(kFormat) && kFormat != KvFormat::kQ8_0) {
#pragma GCC unroll 16
      for (int line = 0; line < kRow * kTaken<kFormat>; line += 64)
        fetch(at + values.ahead + (i * kTaken<kFormat> + line / kRow) * step + line % kRow);
    }
    add_values<kFormat>(weights, row, at, step, i ^ kOddFirst<kFormat>, acc);
  }
  if constexpr (kHalves) {
    if (end < values.end) add_half_pair<kFormat>(weights, row, at, step, end, acc);
  }
}

// Merges the weighted values of D * 16 dimensions, from dimension `dim` on, into the states. q8_0:
// multiplies the codes with weight * scale.
template <KvFormat kFormat, int R, int D>
HWY_INLINE void value_tiles(const float* weights, const BlockPart& values, int dim,
                            const float* factors, float* states) {
  const int n = values.n;
  F32 acc[R][D];
#pragma GCC unroll 8
  for (int r = 0; r < R; ++r)
#pragma GCC unroll 8
    for (int c = 0; c < D; ++c) acc[r][c] = zero();
  if constexpr (kFormat != KvFormat::kQ8_0) {
    accumulate_values<kFormat>(weights, kBlock, values, values.at + dim / 16 * kVector<kFormat>,
                               int64_t{n} * kBytes<kFormat>, acc);
  } else {
    for (int t = values.first / 16; t * 16 < values.end; ++t) {
      const std::byte* tile =
          values.at + t * tile_bytes<kFormat>(n) + dim / 32 * static_cast<int64_t>(sizeof(Q8Tile));
      for (size_t line = 0; line < sizeof(Q8Tile); line += 64) fetch(tile + values.ahead + line);
      const F32 scale = load_f16(tile);
      alignas(64) float scaled[R * 16];
#pragma GCC unroll 8
      for (int r = 0; r < R; ++r)
        store(scaled + r * 16, mul(load(weights + r * kBlock + t * 16), scale));
      BlockPart part = values;
      part.first = std::max(values.first - t * 16, 0);
      part.end = std::min(values.end - t * 16, 16);
      accumulate_values<kFormat>(scaled, 16, part, tile + offsetof(Q8Tile, codes) + dim % 32, 32,
                                 acc);
    }
  }
  update_states(acc, factors, n, states + dim);
}

// Merges the weighted values of all dimensions into the states.
template <KvFormat kFormat, int R>
HWY_NOINLINE void value_block(const float* weights, const BlockPart& values, const float* factors,
                              float* states) {
  constexpr int kMost = kFormat == KvFormat::kQ8_0 ? 2 : 8;
  constexpr int kAtOnce = std::min(tiles_at_once(R), kMost);
  int c = 0;
  for (; c + kAtOnce * 16 <= values.n; c += kAtOnce * 16)
    value_tiles<kFormat, R, kAtOnce>(weights, values, c, factors, states);
  for (; c < values.n; c += 16) value_tiles<kFormat, R, 1>(weights, values, c, factors, states);
}

using ScoreFn = void (*)(const float*, const BlockPart&, float*);
using ValueFn = void (*)(const float*, const BlockPart&, const float*, float*);
struct BlockKernels {
  ScoreFn score[kMaxQueries];
  ValueFn value[kMaxQueries];
};
template <KvFormat kFormat>
constexpr BlockKernels kBlockKernels = {
    {score_block<kFormat, 1>, score_block<kFormat, 2>, score_block<kFormat, 3>,
     score_block<kFormat, 4>, score_block<kFormat, 5>, score_block<kFormat, 6>},
    {value_block<kFormat, 1>, value_block<kFormat, 2>, value_block<kFormat, 3>,
     value_block<kFormat, 4>, value_block<kFormat, 5>, value_block<kFormat, 6>}};

HWY_INLINE const BlockKernels& block_kernels(KvFormat format) {
  switch (format) {
    case KvFormat::kF16: return kBlockKernels<KvFormat::kF16>;
    case KvFormat::kBF16: return kBlockKernels<KvFormat::kBF16>;
    case KvFormat::kQ8_0: return kBlockKernels<KvFormat::kQ8_0>;
    case KvFormat::kRoundedF32: return kBlockKernels<KvFormat::kRoundedF32>;
    case KvFormat::kRoundedBF16: return kBlockKernels<KvFormat::kRoundedBF16>;
#if HWY_TARGET == HWY_AVX3
    case KvFormat::kPairs: return kBlockKernels<KvFormat::kPairs>;
    case KvFormat::kDotBF16: return kBlockKernels<KvFormat::kDotBF16>;
#endif
    default: return kBlockKernels<KvFormat::kF32>;
  }
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace veery
HWY_AFTER_NAMESPACE();

#endif  // VEERY_KERNELS_CPU_ATTEND_TILES_INL_H
