// row-inl.h: a row of activations: RMS norm and quantisation.
#if defined(VEERY_KERNELS_CPU_ROW_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef VEERY_KERNELS_CPU_ROW_INL_H
#undef VEERY_KERNELS_CPU_ROW_INL_H
#else
#define VEERY_KERNELS_CPU_ROW_INL_H
#endif

#include <cmath>
#include <cstring>

#include "kernels/cpu/activations.h"
#include "kernels/cpu/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace veery {
namespace HWY_NAMESPACE {

/// Sum of squares in four interleaved chains of 16 lanes; a tail counts as zeros.
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
/// 1 / sqrt(mean(x^2) + eps)
HWY_INLINE float inverse_rms(const float* x, int64_t n, float eps) {
  return 1.0F / std::sqrt(sum_of_squares(x, n) / static_cast<float>(n) + eps);
}

/// A row and what it is multiplied by: x * inverse * weight, or x where weight is null.
struct Row {
  const float* x;
  const float* weight;
  float inverse;

  HWY_INLINE F32 at(int64_t k) const {
    const F32 v = load(x + k);
    return weight == nullptr ? v : mul(mul(v, set(inverse)), load(weight + k));
  }
  HWY_INLINE F32 first(int64_t k, int n) const {
    const F32 v = load_first(x + k, n);
    return weight == nullptr ? v : mul(mul(v, set(inverse)), load_first(weight + k, n));
  }
};

// Four quads of a row to every w-th place.
HWY_INLINE void store_quads(I32 v, int w, int8_t* out) {
  if (w == 1) return store_i8(out, v);
  int8_t bytes[16];
  store_i8(bytes, v);
  for (int i = 0; i < 4; ++i) std::memcpy(out + 4 * w * i, bytes + 4 * i, 4);
}

/// Scale and its inverse for values up to `largest` in magnitude; below 1e-30 all become 0.
struct Scale {
  float scale, inverse;
};
HWY_INLINE Scale scale_for(float largest) {
  const bool tiny = !(largest > 1e-30F);
  return {tiny ? 0.0F : largest / 127.0F, tiny ? 0.0F : 127.0F / largest};
}

/// The values of a block that 8 bits leave over.
HWY_INLINE float add_loud(F32 v0, F32 v1, I32 q0, I32 q1, int64_t b, float scale, LoudBlock& out) {
  const F32 minus = set(-scale);
  const F32 inverse = set(254.0F / scale);
  const I32 r0 = to_int(mul(fma(minus, to_float(q0), v0), inverse));
  const I32 r1 = to_int(mul(fma(minus, to_float(q1), v1), inverse));
  out.block = static_cast<int32_t>(b);
  out.scale = scale / 254.0F;
  out.sum = sum(add(r0, r1));
  store_i8(out.rest, r0);
  store_i8(out.rest + 16, r1);
  return out.scale * static_cast<float>(out.sum);
}

/// Quantises a row to row r of a group of w rows.
HWY_INLINE void quantise_per32(const Row& row, int64_t cols, const ActivationGroup& g, int w,
                               int r) {
  const int64_t blocks = cols / 32;
  float all = 0;
  for (int64_t b = 0; b < blocks; ++b) {
    const float largest = max_of(max(abs(row.at(32 * b)), abs(row.at(32 * b + 16))));
    g.scale[b * w + r] = largest;
    all += largest;
  }
  const float loud = kLoud * (all / static_cast<float>(blocks));
  g.extra[r] = 0;
  for (int64_t b = 0; b < blocks; ++b) {
    const int64_t at = b * w + r;
    const F32 v0 = row.at(32 * b);
    const F32 v1 = row.at(32 * b + 16);
    const float largest = g.scale[at];
    const Scale s = scale_for(largest);
    const I32 q0 = to_int(mul(v0, set(s.inverse)));
    const I32 q1 = to_int(mul(v1, set(s.inverse)));
    store_quads(q0, w, g.quads + (8 * b * w + r) * 4);
    store_quads(q1, w, g.quads + ((8 * b + 4) * w + r) * 4);
    const int32_t total = sum(add(q0, q1));
    g.scale[at] = s.scale;
    g.moment[at] = s.scale * static_cast<float>(total);
    if (largest > loud && s.scale > 0 && g.extra[r] < loud_limit(blocks))
      g.moment[at] += add_loud(v0, v1, q0, q1, b, s.scale, g.loud[g.extra[r]++ * w + r]);
    g.start[at] = -8 * total;
    g.start[blocks * w + at] = -16 * total;
    g.start[2 * blocks * w + at] = -128 * total;
  }
}

/// One scale for 256 values, and for each 32 of them how often it is doubled: quiet parts of a row
/// keep up to three bits more, and all sums stay integers.
inline constexpr int kMostShift = 3;

HWY_INLINE void quantise_per256(const Row& row, int64_t cols, const ActivationGroup& g, int w,
                                int r) {
  for (int64_t b = 0; b < cols / 256; ++b) {
    float largest[8];
    float of_all = 0;
    for (int s = 0; s < 8; ++s) {
      const int64_t k = 256 * b + 32 * s;
      largest[s] = max_of(max(abs(row.at(k)), abs(row.at(k + 16))));
      of_all = largest[s] > of_all ? largest[s] : of_all;
    }
    const Scale whole = scale_for(of_all);
    g.scale[b * w + r] = whole.scale / (1 << kMostShift);
    for (int s = 0; s < 8; ++s) {
      int shift = kMostShift;
      float inverse = whole.inverse;
      for (float x = 2 * largest[s]; shift > 0 && x <= of_all; x *= 2, --shift) inverse *= 2;
      g.shift[(b * 8 + s) * w + r] = shift;
      int32_t both = 0;
      for (int t = 0; t < 2; ++t) {
        const int64_t i = 2 * s + t;
        const I32 q = to_int(mul(row.at(256 * b + 16 * i), set(inverse)));
        store_quads(q, w, g.quads + ((64 * b + 4 * i) * w + r) * 4);
        const int32_t total = sum(q) << shift;
        const int64_t pair = (b * 4 + s / 4 * 2 + t) * 2 + s % 2;
        g.sums[(pair * w + r) * 2 + s % 4 / 2] = static_cast<int16_t>(total);
        both += total;
      }
      const int64_t pair32 = (b * 2 + s / 4) * 2 + s % 2;
      g.sums32[(pair32 * w + r) * 2 + s % 4 / 2] = static_cast<int16_t>(both);
    }
  }
}

HWY_INLINE void copy_values(const Row& row, int64_t cols, const ActivationGroup& g, int w, int r) {
  for (int64_t k = 0; k < cols; k += 16) {
    const int n = static_cast<int>(cols - k < 16 ? cols - k : 16);
    const F32 v = n == 16 ? row.at(k) : row.first(k, n);
    if (w == 1) {
      store_first(g.values + k, v, n);
    } else {
      float x[16];
      store(x, v);
      for (int i = 0; i < n; ++i) g.values[(k + i) * w + r] = x[i];
    }
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace veery
HWY_AFTER_NAMESPACE();

#endif  // VEERY_KERNELS_CPU_ROW_INL_H
