// row-inl.h: RMS norm and quantisation of token rows into groups (activations.h).
#if defined(VEERY_KERNELS_CPU_ROW_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef VEERY_KERNELS_CPU_ROW_INL_H
#undef VEERY_KERNELS_CPU_ROW_INL_H
#else
#define VEERY_KERNELS_CPU_ROW_INL_H
#endif

#include <cmath>
#include <cstring>
#include <utility>

#include "kernels/cpu/activations/activations.h"
#include "kernels/cpu/simd/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace veery {
namespace HWY_NAMESPACE {

/// Returns the sum of squares: four interleaved accumulators of 16 lanes; the tail is padded with
/// zeros. Four, because one accumulator would be bound by the latency of fma.
HWY_INLINE float sum_of_squares(const float* x, int64_t n) {
  F32 part[4] = {zero(), zero(), zero(), zero()};
  int64_t i = 0;
  for (; i + 64 <= n; i += 64)
    for (int c = 0; c < 4; ++c) {
      const F32 v = load(x + i + 16 * c);
      part[c] = fma(v, v, part[c]);
    }
  for (int c = 0; i < n; i += 16, ++c) {
    const F32 v = n - i >= 16 ? load(x + i) : load_first(x + i, static_cast<int>(n - i));
    part[c] = fma(v, v, part[c]);
  }
  return sum(add(add(part[0], part[1]), add(part[2], part[3])));
}
/// Returns 1 / sqrt(mean(x^2) + eps).
HWY_INLINE float inverse_rms(const float* x, int64_t n, float eps) {
  return 1.0F / std::sqrt(sum_of_squares(x, n) / static_cast<float>(n) + eps);
}

/// A token row before quantisation: x * inverse * weight, the RMS norm, or x if weight is null.
struct Row {
  const float* x;
  const float* weight;
  float inverse;
  bool outliers = true;  ///< whether outlier blocks are quantised twice (activations.h)

  /// Returns the 16 values from column k on.
  HWY_INLINE F32 at(int64_t k) const {
    const F32 v = load(x + k);
    return weight == nullptr ? v : mul(mul(v, set(inverse)), load(weight + k));
  }
  /// Returns n <= 16 values from column k on, padded with zeros.
  HWY_INLINE F32 first(int64_t k, int n) const {
    const F32 v = load_first(x + k, n);
    return weight == nullptr ? v : mul(mul(v, set(inverse)), load_first(weight + k, n));
  }
};

// Interleaves 32 bytes of each of w rows by quads (4 bytes): `out` is [8][w][4].
template <int w>
HWY_INLINE void interleave_quads(const int8_t (&rows)[kGroupRows][32], int8_t* out) {
#if HWY_ARCH_X86
  if constexpr (w % 4 == 0) {
    for (int half = 0; half < 2; ++half)
      for (int r = 0; r < w; r += 4) {
        __m128i v[4];
        for (int i = 0; i < 4; ++i)
          v[i] = _mm_loadu_si128(reinterpret_cast<const __m128i*>(rows[r + i] + 16 * half));
        const __m128i a = _mm_unpacklo_epi32(v[0], v[1]);
        const __m128i b = _mm_unpacklo_epi32(v[2], v[3]);
        const __m128i c = _mm_unpackhi_epi32(v[0], v[1]);
        const __m128i d = _mm_unpackhi_epi32(v[2], v[3]);
        auto* to = reinterpret_cast<__m128i*>(out + (4 * half * w + r) * 4);
        _mm_storeu_si128(to, _mm_unpacklo_epi64(a, b));
        _mm_storeu_si128(to + w / 4, _mm_unpackhi_epi64(a, b));
        _mm_storeu_si128(to + w / 2, _mm_unpacklo_epi64(c, d));
        _mm_storeu_si128(to + w * 3 / 4, _mm_unpackhi_epi64(c, d));
      }
    return;
  }
#endif
  for (int i = 0; i < 8; ++i)
    for (int r = 0; r < w; ++r) std::memcpy(out + (i * w + r) * 4, rows[r] + 4 * i, 4);
}

/// Calls fn with the group width w (1, 2, 4 or kGroupRows) as a std::integral_constant.
template <typename Fn>
HWY_INLINE void with_width(int w, const Fn& fn) {
  switch (w) {
    case 1: return fn(std::integral_constant<int, 1>());
    case 2: return fn(std::integral_constant<int, 2>());
    case 4: return fn(std::integral_constant<int, 4>());
    default: return fn(std::integral_constant<int, kGroupRows>());
  }
}

/// Scale of int8 values and its inverse, for values up to `largest` in magnitude. If `largest` is
/// not above 1e-30, both are 0, so that all values become 0.
struct Scale {
  float scale, inverse;
};
HWY_INLINE Scale scale_for(float largest) {
  const bool tiny = !(largest > 1e-30F);
  return {tiny ? 0.0F : largest / 127.0F, tiny ? 0.0F : 127.0F / largest};
}

/// Quantises the residual v - scale * q of outlier block b. Returns its scale * sum.
HWY_INLINE float set_residual(F32 v0, F32 v1, I32 q0, I32 q1, int64_t b, float scale,
                              OutlierBlock& out) {
  const F32 minus = set(-scale);
  const F32 inverse = set(254.0F / scale);
  const I32 r0 = to_int(mul(fma(minus, to_float(q0), v0), inverse));
  const I32 r1 = to_int(mul(fma(minus, to_float(q1), v1), inverse));
  out.block = static_cast<int32_t>(b);
  out.scale = scale / 254.0F;
  out.sum = sum(add(r0, r1));
  store_i8(out.residual, r0);
  store_i8(out.residual + 16, r1);
  return out.scale * static_cast<float>(out.sum);
}

// Stores the largest magnitude of each block in `largest`, which later holds its scale. A block is
// an outlier block if that magnitude exceeds `threshold`.
HWY_INLINE void measure_per32(const Row& row, int64_t blocks, int w, float* largest,
                              float& threshold) {
  float all = 0;
  for (int64_t b = 0; b < blocks; ++b) {
    const float of_block = max_of(max(abs(row.at(32 * b)), abs(row.at(32 * b + 16))));
    largest[b * w] = of_block;
    all += of_block;
  }
  threshold = row.outliers ? kOutlierRatio * (all / static_cast<float>(blocks)) : HUGE_VALF;
}

// Records the outlier blocks of row r. g.scale still holds the largest magnitudes.
HWY_INLINE void find_outliers(const ActivationGroup& g, int64_t blocks, int w, int r,
                              float threshold) {
  g.extra[r] = 0;
  for (int64_t b = 0; b < blocks && g.extra[r] < outlier_limit(blocks); ++b) {
    const float largest = g.scale[b * w + r];
    if (largest > threshold && scale_for(largest).scale > 0)
      g.outliers[g.extra[r]++ * w + r].block = static_cast<int32_t>(b);
  }
}

// Replaces n largest magnitudes in `scale` by scales, and stores their inverses.
HWY_INLINE void set_scales(float* scale, float* inverse, int64_t n) {
  for (int64_t i = 0; i < n; i += 16) {
    const int lanes = static_cast<int>(n - i < 16 ? n - i : 16);
    const F32 largest = load_first(scale + i, lanes);
    const Mask large = greater(largest, set(1e-30F));  // as in scale_for()
    store_first(scale + i, select(large, div(largest, set(127.0F)), zero()), lanes);
    store_first(inverse + i, select(large, div(set(127.0F), largest), zero()), lanes);
  }
}

// Writes the quads of all rows, and the sum of each block to g.start. g.moment still holds the
// inverse scales.
template <int w>
HWY_INLINE void quads_per32(const Row* rows, int count, int64_t blocks, const ActivationGroup& g) {
  alignas(64) int8_t bytes[kGroupRows][32] = {};
  for (int64_t b = 0; b < blocks; ++b) {
    for (int r = 0; r < count; ++r) {
      const F32 inverse = set(g.moment[b * w + r]);
      const I32 q0 = to_int(mul(rows[r].at(32 * b), inverse));
      const I32 q1 = to_int(mul(rows[r].at(32 * b + 16), inverse));
      store_i8(bytes[r], q0);
      store_i8(bytes[r] + 16, q1);
      g.start[b * w + r] = sum(add(q0, q1));
    }
    interleave_quads<w>(bytes, g.quads + 32 * b * w);
  }
}

// Computes `moment` and the three arrays of `start` from the sums of n blocks, which are in
// g.start.
HWY_INLINE void set_starts(const ActivationGroup& g, int64_t n) {
  for (int64_t i = 0; i < n; i += 16) {
    const int lanes = static_cast<int>(n - i < 16 ? n - i : 16);
    const auto* sums = reinterpret_cast<const float*>(g.start);
    const I32 total = bits(load_first(sums + i, lanes));
    const I32 minus = sub(zero_int(), total);
    store_first(g.moment + i, mul(load_first(g.scale + i, lanes), to_float(total)), lanes);
    auto* start = reinterpret_cast<float*>(g.start);
    store_first(start + i, as_float(shl<3>(minus)), lanes);
    store_first(start + n + i, as_float(shl<4>(minus)), lanes);
    store_first(start + 2 * n + i, as_float(shl<7>(minus)), lanes);
  }
}

// Quantises the residuals of the outlier blocks of a row, and adds them to the moments.
HWY_INLINE void set_residuals(const Row& row, int w, int r, const ActivationGroup& g) {
  for (int32_t e = 0; e < g.extra[r]; ++e) {
    OutlierBlock& out = g.outliers[e * w + r];
    const int64_t b = out.block;
    const F32 v0 = row.at(32 * b);
    const F32 v1 = row.at(32 * b + 16);
    const Scale s = scale_for(max_of(max(abs(v0), abs(v1))));
    const F32 inverse = set(s.inverse);
    g.moment[b * w + r] +=
        set_residual(v0, v1, to_int(mul(v0, inverse)), to_int(mul(v1, inverse)), b, s.scale, out);
  }
}

/// Quantises `count` rows into a kPer32 group of w rows; missing rows are padded with zeros.
template <int w>
HWY_INLINE void quantise_per32(const Row* rows, int count, int64_t cols, const ActivationGroup& g) {
  const int64_t blocks = cols / 32;
  for (int r = 0; r < count; ++r) {
    float threshold;
    measure_per32(rows[r], blocks, w, g.scale + r, threshold);
    find_outliers(g, blocks, w, r, threshold);
  }
  for (int r = count; r < w; ++r) {
    g.extra[r] = 0;
    for (int64_t b = 0; b < blocks; ++b) g.scale[b * w + r] = 0, g.start[b * w + r] = 0;
  }
  set_scales(g.scale, g.moment, blocks * w);
  quads_per32<w>(rows, count, blocks, g);
  set_starts(g, blocks * w);
  for (int r = 0; r < count; ++r) set_residuals(rows[r], w, r, g);
}
HWY_INLINE void quantise_per32(const Row* rows, int count, int64_t cols, const ActivationGroup& g,
                               int w) {
  with_width(w, [&](auto of) { quantise_per32<of()>(rows, count, cols, g); });
}

/// kPer256 has one scale for 256 values and a shift (0 to 3) for each 32 of them: strips of small
/// values keep up to three more bits, and all sums remain integers.
inline constexpr int kMostShift = 3;

// The magnitudes of 256 columns of one row.
struct Part256 {
  float largest[8];  // of each strip of 32 columns
  float of_all = 0;
  float inverse;  // of the scale without shifts
};
HWY_INLINE Part256 measure_per256(const Row& row, int64_t b, float& scale) {
  Part256 part;
  for (int s = 0; s < 8; ++s) {
    const int64_t k = 256 * b + 32 * s;
    part.largest[s] = max_of(max(abs(row.at(k)), abs(row.at(k + 16))));
    part.of_all = part.largest[s] > part.of_all ? part.largest[s] : part.of_all;
  }
  const Scale whole = scale_for(part.of_all);
  scale = whole.scale / (1 << kMostShift);
  part.inverse = whole.inverse;
  return part;
}
// Returns the shift of columns 32 s to 32 s + 31, and sets `inverse` to their inverse scale.
HWY_INLINE int shift_of(const Part256& part, int s, float& inverse) {
  int shift = kMostShift;
  inverse = part.inverse;
  for (float x = 2 * part.largest[s]; shift > 0 && x <= part.of_all; x *= 2, --shift) inverse *= 2;
  return shift;
}
// Quantises these 32 columns: writes quads to `quads`, the shift and the sums to row r of group g.
HWY_INLINE void quantise_part(const Row& row, const Part256& part, int64_t b, int s, int w, int r,
                              const ActivationGroup& g, int8_t (&quads)[32]) {
  float inverse;
  const int shift = shift_of(part, s, inverse);
  g.shift[(b * 8 + s) * w + r] = shift;
  int32_t both = 0;
  for (int t = 0; t < 2; ++t) {
    const I32 q = to_int(mul(row.at(256 * b + 32 * s + 16 * t), set(inverse)));
    store_i8(quads + 16 * t, q);
    const int32_t total = sum(q) << shift;
    const int64_t pair = (b * 4 + s / 4 * 2 + t) * 2 + s % 2;
    g.sums[(pair * w + r) * 2 + s % 4 / 2] = static_cast<int16_t>(total);
    both += total;
  }
  const int64_t pair32 = (b * 2 + s / 4) * 2 + s % 2;
  g.sums32[(pair32 * w + r) * 2 + s % 4 / 2] = static_cast<int16_t>(both);
}
template <int w>
HWY_INLINE void quantise_per256(const Row* rows, int count, int64_t cols,
                                const ActivationGroup& g) {
  int8_t quads[kGroupRows][32] = {};
  Part256 parts[kGroupRows];
  for (int64_t b = 0; b < cols / 256; ++b) {
    for (int r = 0; r < count; ++r) parts[r] = measure_per256(rows[r], b, g.scale[b * w + r]);
    for (int s = 0; s < 8; ++s) {
      for (int r = 0; r < count; ++r) quantise_part(rows[r], parts[r], b, s, w, r, g, quads[r]);
      interleave_quads<w>(quads, g.quads + 32 * (8 * b + s) * w);
    }
  }
}
HWY_INLINE void quantise_per256(const Row* rows, int count, int64_t cols, const ActivationGroup& g,
                                int w) {
  with_width(w, [&](auto of) { quantise_per256<of()>(rows, count, cols, g); });
}

/// Writes the quantisation error of a row, x - scale * int8, as f32 (residual quantisation of
/// Precision::kHigh). No block is treated as an outlier block.
HWY_INLINE void write_residual(Activations kind, const Row& row, int64_t cols, float* residual) {
  const auto write = [&](int64_t k, float step, float inverse) {
    for (int64_t i = k; i < k + 32; i += 16) {
      const F32 v = row.at(i);
      store(residual + i, fma(set(-step), to_float(to_int(mul(v, set(inverse)))), v));
    }
  };
  if (kind == Activations::kPer32) {
    for (int64_t k = 0; k < cols; k += 32) {
      const Scale s = scale_for(max_of(max(abs(row.at(k)), abs(row.at(k + 16)))));
      write(k, s.scale, s.inverse);
    }
    return;
  }
  for (int64_t b = 0; b < cols / 256; ++b) {
    float scale;
    float inverse;
    const Part256 part = measure_per256(row, b, scale);
    for (int s = 0; s < 8; ++s) {
      const int shift = shift_of(part, s, inverse);
      write(256 * b + 32 * s, scale * static_cast<float>(1 << shift), inverse);
    }
  }
}

/// Writes 16 columns of a row in the layout of kFloat, kRounded or kPairs, in 4-byte words.
template <Activations kKind>
HWY_INLINE void float_words(F32 v, void* out) {
  if constexpr (kKind == Activations::kFloat) return store_int(out, bits(v));
  const I32 rounded = round_to_bf16(flush(v));
  if constexpr (kKind == Activations::kPairs) return store_u16(out, shr<16>(rounded));
  uint32_t x[16];
  store_int(x, rounded);
  for (int i = 0; i < 16; i += 2) std::swap(x[i], x[i + 1]);
  std::memcpy(out, x, sizeof x);
}

/// Writes `count` rows as a group of w rows of kFloat, kRounded or kPairs.
template <Activations kKind, int w>
HWY_INLINE void write_values(const Row* rows, int count, int64_t cols, const ActivationGroup& g) {
  constexpr int kWords = kKind == Activations::kPairs ? 8 : 16;
  auto* out = kKind == Activations::kPairs ? g.pairs : reinterpret_cast<uint32_t*>(g.values);
  int8_t words[kWords / 8][kGroupRows][32] = {};
  for (int64_t k = 0; k < cols; k += 16, out += kWords * w) {
    const int n = static_cast<int>(cols - k < 16 ? cols - k : 16);
    for (int r = 0; r < count; ++r) {
      alignas(64) int8_t row[4 * kWords];
      float_words<kKind>(n == 16 ? rows[r].at(k) : rows[r].first(k, n), row);
      for (int part = 0; part < kWords / 8; ++part)
        std::memcpy(words[part][r], row + 32 * part, 32);
    }
    for (int part = 0; part < kWords / 8 && n == 16; ++part)
      interleave_quads<w>(words[part], reinterpret_cast<int8_t*>(out + 8 * part * w));
    // The tail: fewer than 16 columns, and a zero after an odd number of them.
    for (int i = 0; i < (n + 1) / 2 * (kWords / 8) && n < 16; ++i)
      for (int r = 0; r < w; ++r) std::memcpy(out + i * w + r, words[i / 8][r] + i % 8 * 4, 4);
  }
}
template <Activations kKind>
HWY_INLINE void write_values(const Row* rows, int count, int64_t cols, const ActivationGroup& g,
                             int w) {
  with_width(w, [&](auto of) { write_values<kKind, of()>(rows, count, cols, g); });
}

}  // namespace HWY_NAMESPACE
}  // namespace veery
HWY_AFTER_NAMESPACE();

#endif  // VEERY_KERNELS_CPU_ROW_INL_H
