#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/tensor/rope_rows.cc"
#include "kernels/cpu/simd/foreach_f32_target.h"
//
#include "kernels/cpu/simd/simd-inl.h"
//
#include <algorithm>

#include "kernels/cpu/tensor/rope_rows.h"

// Scalar loops in this file are left to the compiler's vectoriser. Their operations round once each
// and do not sum over elements, so vectorisation cannot change a bit.

HWY_BEFORE_NAMESPACE();
namespace veery {
namespace HWY_NAMESPACE {
namespace {

struct SinCos {
  double sin, cos;
};
// Returns sin and cos of position * frequency, which is below 2^51. The angle is a sum of two
// doubles: rounded to one it would have an error of 2e-7 at position 2^31. It is n pi/2 + r, r in
// [-pi/4, pi/4], and the Taylor series of r end where their terms are below 1e-17.
HWY_INLINE SinCos sin_cos(double position, double frequency) {
  const double x = position * frequency;
  const double rest = __builtin_fma(position, frequency, -x);
  // Adding and subtracting 1.5 * 2^52 rounds to an integer; the low bits of the sum are those of
  // the integer.
  constexpr double kRound = 6755399441055744.0;
  const double shifted = x * 0.63661977236758134308 + kRound;
  const double n = shifted - kRound;
  const auto quadrant = __builtin_bit_cast(uint64_t, shifted);
  double r = __builtin_fma(n, -1.57079632679489655800, x);
  r = __builtin_fma(n, -6.12323399573676603587e-17, r) + rest;
  const double z = r * r;
  double s = __builtin_fma(z, -1.0 / 1307674368000, 1.0 / 6227020800);
  s = __builtin_fma(z, s, -1.0 / 39916800);
  s = __builtin_fma(z, s, 1.0 / 362880);
  s = __builtin_fma(z, s, -1.0 / 5040);
  s = __builtin_fma(z, s, 1.0 / 120);
  s = __builtin_fma(z, s, -1.0 / 6);
  s = __builtin_fma(z * r, s, r);
  double c = __builtin_fma(z, 1.0 / 20922789888000, -1.0 / 87178291200);
  c = __builtin_fma(z, c, 1.0 / 479001600);
  c = __builtin_fma(z, c, -1.0 / 3628800);
  c = __builtin_fma(z, c, 1.0 / 40320);
  c = __builtin_fma(z, c, -1.0 / 720);
  c = __builtin_fma(z, c, 1.0 / 24);
  c = __builtin_fma(z, c, -0.5);
  c = __builtin_fma(z, c, 1.0);
  const double first = (quadrant & 1) != 0 ? c : s;
  const double second = (quadrant & 1) != 0 ? s : c;
  return {(quadrant & 2) != 0 ? -first : first, ((quadrant + 1) & 2) != 0 ? -second : second};
}

// Computes cos and sin of the pairs of a token, counted over all batches.
void turn(const RopeProblem& p, const RopeTable& table, int64_t token, const RopeScratch& to) {
  double at[4];
  for (size_t axis = 0; axis < 4; ++axis) at[axis] = p.positions[axis][token];
  double* position = to.positions;
  for (size_t i = 0; i < table.axis.size(); ++i) position[i] = at[table.axis[i]];
  const double* frequency = table.frequency.data();
  double* cos = to.cos;
  double* sin = to.sin;
  const double magnitude = table.magnitude, with_sign = p.back ? -magnitude : magnitude;
  const int64_t pairs = table.pairs();
#pragma GCC ivdep
  for (int64_t i = 0; i < pairs; ++i) {
    const SinCos of = sin_cos(position[i], frequency[i]);
    cos[i] = of.cos * magnitude;
    sin[i] = of.sin * with_sign;
  }
}

// `out` may be `x`; otherwise they must not overlap.
template <typename T>
HWY_INLINE void rotate(const T* x, const RopeTable& table, int64_t head_dim, const RopeScratch& at,
                       T* out) {
  const int64_t pairs = table.pairs(), distance = table.distance;
  const double* cos = at.cos;
  const double* sin = at.sin;
  if (table.step == 2) {
    if (x != out) std::copy(x + 2 * pairs, x + head_dim, out + 2 * pairs);
#pragma GCC ivdep
    for (int64_t i = 0; i < pairs; ++i) {
      const double a = x[2 * i], b = x[2 * i + 1];
      out[2 * i] = static_cast<T>(a * cos[i] - b * sin[i]);
      out[2 * i + 1] = static_cast<T>(a * sin[i] + b * cos[i]);
    }
    return;
  }
  if (x != out) {
    std::copy(x + pairs, x + distance, out + pairs);
    std::copy(x + distance + pairs, x + head_dim, out + distance + pairs);
  }
#pragma GCC ivdep
  for (int64_t i = 0; i < pairs; ++i) {
    const double a = x[i], b = x[i + distance];
    out[i] = static_cast<T>(a * cos[i] - b * sin[i]);
    out[i + distance] = static_cast<T>(a * sin[i] + b * cos[i]);
  }
}

// Rows of 16 bit floats, converted 16 elements at a time.
HWY_INLINE void load_row(const uint16_t* x, ElementType type, int64_t n, float* row) {
  const auto load_16 = [&](const uint16_t* at) {
    return type == ElementType::kF16 ? load_f16(at) : load_bf16(at);
  };
  int64_t i = 0;
  for (; i + 16 <= n; i += 16) store(row + i, load_16(x + i));
  if (i == n) return;
  alignas(64) uint16_t rest[16] = {};
  std::copy(x + i, x + n, rest);
  store_first(row + i, load_16(rest), static_cast<int>(n - i));
}
HWY_INLINE void store_row(const float* row, ElementType type, int64_t n, uint16_t* x) {
  const auto store_16 = [&](uint16_t* at, F32 v) {
    type == ElementType::kF16 ? store_f16(at, v) : store_u16(at, shr<16>(round_to_bf16(v)));
  };
  int64_t i = 0;
  for (; i + 16 <= n; i += 16) store_16(x + i, load(row + i));
  if (i == n) return;
  alignas(64) uint16_t rest[16];
  store_16(rest, load_first(row + i, static_cast<int>(n - i)));
  std::copy_n(rest, n - i, x + i);
}

void rotate_head(const RopeProblem& p, const RopeTable& table, int64_t from, int64_t to,
                 const RopeScratch& scratch) {
  const auto rotate_as = [&](auto sample) {
    using T = decltype(sample);
    rotate(reinterpret_cast<const T*>(p.in.data) + from, table, p.head_dim, scratch,
           reinterpret_cast<T*>(p.out.data) + to);
  };
  if (p.type == ElementType::kF32) return rotate_as(float{});
  if (p.type == ElementType::kF64) return rotate_as(double{});
  float* row = scratch.row;
  load_row(reinterpret_cast<const uint16_t*>(p.in.data) + from, p.type, p.head_dim, row);
  rotate(row, table, p.head_dim, scratch, row);
  store_row(row, p.type, p.head_dim, reinterpret_cast<uint16_t*>(p.out.data) + to);
}

}  // namespace

void rope_rows(const RopeProblem& p, const RopeTable& table, int64_t begin, int64_t end,
               const RopeScratch& scratch) {
  for (int64_t i = begin; i < end; ++i) {
    turn(p, table, i, scratch);
    const int64_t batch = i / p.tokens, token = i % p.tokens;
    const int64_t from = batch * p.in.batch_stride + token * p.in.token_stride;
    const int64_t to = batch * p.out.batch_stride + token * p.out.token_stride;
    for (int64_t h = 0; h < p.heads; ++h)
      rotate_head(p, table, from + h * p.in.head_stride, to + h * p.out.head_stride, scratch);
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace veery
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace veery {

RopeRows find_rope_rows(Target target) { return VEERY_FOR_F32_TARGET(target, rope_rows); }

}  // namespace veery
#endif
