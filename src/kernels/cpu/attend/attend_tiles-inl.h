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

#include "kernels/cpu/attend/attend.h"
#include "kernels/cpu/simd/simd-inl.h"

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

// What the kernels read, and what they make of it.
enum class Form {
  kF32,
  kF16,
  kBF16,
  kQ8_0,
  // Products of bf16, the odd one of two dimensions or positions before the even one, by fma:
  kRoundedF32,   // bf16 as f32
  kRoundedBF16,  // as stored
  // or by dot products, which take the two together:
  kPairs,    // beside each other
  kDotBF16,  // as stored
};
HWY_INLINE Form form_of(DType stored, Products products) {
  switch (stored) {
    case DType::kF16: return Form::kF16;
    case DType::kQ8_0: return Form::kQ8_0;
    case DType::kBF16:
      return products == Products::kExact     ? Form::kBF16
             : products == Products::kRounded ? Form::kRoundedBF16
                                              : Form::kDotBF16;
    default: return Form::kF32;
  }
}
constexpr bool is_dot(Form form) { return form == Form::kPairs || form == Form::kDotBF16; }
// Whether the two of a pair are taken together or the odd one first.
constexpr bool in_pairs(Form form) {
  return is_dot(form) || form == Form::kRoundedF32 || form == Form::kRoundedBF16;
}
template <Form kForm>
constexpr int kBytes = kForm == Form::kF32 || kForm == Form::kRoundedF32 ? 4
                       : kForm == Form::kQ8_0                            ? 1
                                                                         : 2;

// Bytes of 16 dimensions, or of 16 pairs.
template <Form kForm>
constexpr int kVector = kForm == Form::kPairs ? 64 : 16 * kBytes<kForm>;
// Dimensions or positions in a product.
template <Form kForm>
constexpr int kTaken = is_dot(kForm) ? 2 : 1;
template <Form kForm>
constexpr int kOddFirst = in_pairs(kForm) && !is_dot(kForm) ? 1 : 0;
// What has been converted is not fetched.
constexpr bool is_stored(Form form) { return form != Form::kRoundedF32 && form != Form::kPairs; }

// 16 stored elements as f32.
template <Form kForm>
HWY_INLINE F32 load_as(const std::byte* p) {
  if constexpr (kForm == Form::kF32 || kForm == Form::kRoundedF32)
    return load(reinterpret_cast<const float*>(p));
  else if constexpr (kForm == Form::kF16)
    return load_f16(p);
  else if constexpr (kForm == Form::kQ8_0)
    return to_float(load_i8(p));
  else
    return load_bf16(p);
}

// 16 pairs of bf16, the even ones in the lower halves.
HWY_INLINE I32 load_pairs(const std::byte* even, const std::byte* odd) {
  return bit_or(bits(load_bf16(odd)), shr<16>(bits(load_bf16(even))));
}
HWY_INLINE I32 pair_at(const float* pairs, int i) {
  int32_t pair;
  std::memcpy(&pair, pairs + i, sizeof(pair));
  return set(pair);
}
#if HWY_TARGET != HWY_AVX3
// Never run: kDotBF16 is of AVX-512 only.
HWY_INLINE F32 dot2_bf16(F32 sum, I32, I32) { return sum; }
#endif

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
// out[c * out_stride + r] = x[r * stride + c] of 16 x 16 values.
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

// Of 16 positions.
template <Form kForm>
constexpr int64_t tile_bytes(int n) {
  return kForm == Form::kQ8_0 ? static_cast<int64_t>(n / 32 * sizeof(Q8Tile))
                              : int64_t{16} * n * kBytes<kForm>;
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

// Vector i of those `stride` bytes apart, or pair i.
template <Form kForm>
HWY_INLINE auto vector_at(const std::byte* at, int64_t stride, int i) {
  if constexpr (kForm == Form::kPairs)
    return load_int(at + 2 * i * stride);
  else if constexpr (kForm == Form::kDotBF16)
    return load_pairs(at + 2 * i * stride, at + (2 * i + 1) * stride);
  else
    return load_as<kForm>(at + i * stride);
}
// What it is multiplied by.
template <Form kForm>
HWY_INLINE auto factor_at(const float* factors, int i) {
  if constexpr (is_dot(kForm))
    return pair_at(factors, i);
  else
    return set(factors[i]);
}
HWY_INLINE F32 add_product(F32 sum, F32 a, F32 b) { return fma(a, b, sum); }
HWY_INLINE F32 add_product(F32 sum, I32 a, I32 b) { return dot2_bf16(sum, a, b); }

// acc[r][t] = chain over `count` dimensions i of q[r][i] * keys[t][i][lane], `step` bytes
// from tile to tile.
template <Form kForm, int R, int T>
HWY_INLINE void score_chain(const float* q, const BlockPart& keys, const std::byte* at,
                            int64_t step, int count, F32 (&acc)[R][T]) {
  constexpr int kDimension = 16 * kBytes<kForm>;
  constexpr int kBytesTaken = kDimension * kTaken<kForm>;
  constexpr int kLine = 64 / kBytesTaken;
#pragma GCC unroll 8
  for (int r = 0; r < R; ++r)
#pragma GCC unroll 8
    for (int t = 0; t < T; ++t) acc[r][t] = zero();
  for (int line = 0; line < count / kTaken<kForm>; line += kLine) {
    if constexpr (is_stored(kForm)) {
#pragma GCC unroll 8
      for (int t = 0; t < T; ++t) fetch(at + keys.ahead + t * step + line * kBytesTaken);
    }
#pragma GCC unroll 4
    for (int l = 0; l < kLine; ++l) {
      const int i = (line + l) ^ kOddFirst<kForm>;
      decltype(vector_at<kForm>(at, kDimension, i)) k[T];
#pragma GCC unroll 8
      for (int t = 0; t < T; ++t) k[t] = vector_at<kForm>(at + t * step, kDimension, i);
#pragma GCC unroll 8
      for (int r = 0; r < R; ++r) {
        const auto x = factor_at<kForm>(q + r * keys.n, i);
#pragma GCC unroll 8
        for (int t = 0; t < T; ++t) acc[r][t] = add_product(acc[r][t], x, k[t]);
      }
    }
  }
}

// Scores of T tiles of keys. q8_0: a chain over each 32 dimensions of products with the codes, and
// one over these sums times their scale.
template <Form kForm, int R, int T>
HWY_INLINE void score_tiles(const float* q, const BlockPart& keys, int tile, float* scores) {
  F32 acc[R][T];
  const int64_t step = tile_bytes<kForm>(keys.n);
  const std::byte* at = keys.at + tile * step;
  scores += tile * 16;
  if constexpr (kForm != Form::kQ8_0) {
    score_chain<kForm>(q, keys, at, step, keys.n, acc);
#pragma GCC unroll 8
    for (int r = 0; r < R; ++r)
#pragma GCC unroll 8
      for (int t = 0; t < T; ++t) store(scores + r * kBlock + t * 16, acc[r][t]);
  } else {
    for (int b = 0; b < keys.n / 32; ++b, at += sizeof(Q8Tile)) {
      score_chain<kForm>(q + 32 * b, keys, at + offsetof(Q8Tile, codes), step, 32, acc);
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
template <Form kForm, int R>
HWY_NOINLINE void score_block(const float* q, const BlockPart& keys, float* scores) {
  constexpr int kAtOnce = tiles_at_once(R);
  int t = keys.first;
  for (; t + kAtOnce <= keys.end; t += kAtOnce) score_tiles<kForm, R, kAtOnce>(q, keys, t, scores);
  for (; t < keys.end; ++t) score_tiles<kForm, R, 1>(q, keys, t, scores);
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

// acc[r][c] += weights[r][i] * values[i][c], of position i or of pair i of positions.
template <Form kForm, int R, int D>
HWY_INLINE void add_values(const float* weights, int row, const std::byte* at, int64_t step, int i,
                           F32 (&acc)[R][D]) {
  decltype(vector_at<kForm>(at, step, i)) v[D];
#pragma GCC unroll 8
  for (int c = 0; c < D; ++c) v[c] = vector_at<kForm>(at + c * kVector<kForm>, step, i);
#pragma GCC unroll 8
  for (int r = 0; r < R; ++r) {
    const auto w = factor_at<kForm>(weights + r * row, i);
#pragma GCC unroll 8
    for (int c = 0; c < D; ++c) acc[r][c] = add_product(acc[r][c], w, v[c]);
  }
}

// The same of the pair in which one has nothing stored, and the weight 0.
template <Form kForm, int R, int D>
HWY_INLINE void add_half_pair(const float* weights, int row, const std::byte* at, int64_t step,
                              int position, F32 (&acc)[R][D]) {
  alignas(64) std::byte pair[2][D * 32] = {};
  std::memcpy(pair[position % 2], at + position * step, sizeof(pair[0]));
  const float* first = weights + position / 2 * (is_dot(kForm) ? 1 : 2);
  if constexpr (!is_dot(kForm)) add_values<kForm>(first, row, pair[0], sizeof(pair[0]), 1, acc);
  add_values<kForm>(first, row, pair[0], sizeof(pair[0]), 0, acc);
}

// acc[r][c] += chain over the positions [first, end) of weights[r][p] * values[p][c]; `step` bytes
// from position to position, `row` weights from query to query.
template <Form kForm, int R, int D>
HWY_INLINE void value_chain(const float* weights, int row, const BlockPart& values,
                            const std::byte* at, int64_t step, F32 (&acc)[R][D]) {
  constexpr int kRow = D * 16 * kBytes<kForm>;
  constexpr bool kHalves = is_stored(kForm) && in_pairs(kForm);
  int first = values.first;
  const int end = in_pairs(kForm) ? values.end / 2 * 2 : values.end;
  if constexpr (kHalves) {
    if (first % 2 != 0) add_half_pair<kForm>(weights, row, at, step, first++, acc);
  }
  for (int i = first / kTaken<kForm>; i < end / kTaken<kForm>; ++i) {
    if constexpr (is_stored(kForm) && kForm != Form::kQ8_0) {
#pragma GCC unroll 16
      for (int line = 0; line < kRow * kTaken<kForm>; line += 64)
        fetch(at + values.ahead + (i * kTaken<kForm> + line / kRow) * step + line % kRow);
    }
    add_values<kForm>(weights, row, at, step, i ^ kOddFirst<kForm>, acc);
  }
  if constexpr (kHalves) {
    if (end < values.end) add_half_pair<kForm>(weights, row, at, step, end, acc);
  }
}

// Merges the weighted values of D * 16 dimensions, from dimension `dim`, into the states. q8_0:
// products of the codes with weight times scale.
template <Form kForm, int R, int D>
HWY_INLINE void value_tiles(const float* weights, const BlockPart& values, int dim,
                            const float* factors, float* states) {
  const int n = values.n;
  F32 acc[R][D];
#pragma GCC unroll 8
  for (int r = 0; r < R; ++r)
#pragma GCC unroll 8
    for (int c = 0; c < D; ++c) acc[r][c] = zero();
  if constexpr (kForm != Form::kQ8_0) {
    value_chain<kForm>(weights, kBlock, values, values.at + dim / 16 * kVector<kForm>,
                       int64_t{n} * kBytes<kForm>, acc);
  } else {
    for (int t = values.first / 16; t * 16 < values.end; ++t) {
      const std::byte* tile =
          values.at + t * tile_bytes<kForm>(n) + dim / 32 * static_cast<int64_t>(sizeof(Q8Tile));
      for (size_t line = 0; line < sizeof(Q8Tile); line += 64) fetch(tile + values.ahead + line);
      const F32 scale = load_f16(tile);
      alignas(64) float scaled[R * 16];
#pragma GCC unroll 8
      for (int r = 0; r < R; ++r)
        store(scaled + r * 16, mul(load(weights + r * kBlock + t * 16), scale));
      BlockPart part = values;
      part.first = std::max(values.first - t * 16, 0);
      part.end = std::min(values.end - t * 16, 16);
      value_chain<kForm>(scaled, 16, part, tile + offsetof(Q8Tile, codes) + dim % 32, 32, acc);
    }
  }
  update_states(acc, factors, n, states + dim);
}

// The same for all dimensions.
template <Form kForm, int R>
HWY_NOINLINE void value_block(const float* weights, const BlockPart& values, const float* factors,
                              float* states) {
  constexpr int kMost = kForm == Form::kQ8_0 ? 2 : 8;
  constexpr int kAtOnce = std::min(tiles_at_once(R), kMost);
  int c = 0;
  for (; c + kAtOnce * 16 <= values.n; c += kAtOnce * 16)
    value_tiles<kForm, R, kAtOnce>(weights, values, c, factors, states);
  for (; c < values.n; c += 16) value_tiles<kForm, R, 1>(weights, values, c, factors, states);
}

using ScoreFn = void (*)(const float*, const BlockPart&, float*);
using ValueFn = void (*)(const float*, const BlockPart&, const float*, float*);
struct BlockKernels {
  ScoreFn score[kMaxQueries];
  ValueFn value[kMaxQueries];
};
template <Form kForm>
constexpr BlockKernels kBlockKernels = {
    {score_block<kForm, 1>, score_block<kForm, 2>, score_block<kForm, 3>, score_block<kForm, 4>,
     score_block<kForm, 5>, score_block<kForm, 6>},
    {value_block<kForm, 1>, value_block<kForm, 2>, value_block<kForm, 3>, value_block<kForm, 4>,
     value_block<kForm, 5>, value_block<kForm, 6>}};

HWY_INLINE const BlockKernels& block_kernels(Form form) {
  switch (form) {
    case Form::kF16: return kBlockKernels<Form::kF16>;
    case Form::kBF16: return kBlockKernels<Form::kBF16>;
    case Form::kQ8_0: return kBlockKernels<Form::kQ8_0>;
    case Form::kRoundedF32: return kBlockKernels<Form::kRoundedF32>;
    case Form::kRoundedBF16: return kBlockKernels<Form::kRoundedBF16>;
#if HWY_TARGET == HWY_AVX3
    case Form::kPairs: return kBlockKernels<Form::kPairs>;
    case Form::kDotBF16: return kBlockKernels<Form::kDotBF16>;
#endif
    default: return kBlockKernels<Form::kF32>;
  }
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace veery
HWY_AFTER_NAMESPACE();

#endif  // VEERY_KERNELS_CPU_ATTEND_TILES_INL_H
