// RoPE angles, rotation, scaling by position, and writes to the KV cache, separately or fused
// (kQkvRope).
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/rows/rope.cc"
#include "kernels/cpu/simd/foreach_f32_target.h"
//
#include "kernels/cpu/activations/row-inl.h"
//
#include <algorithm>

#include "kernels/common/float_kernels.h"
#include "kernels/common/pages.h"
#include "kernels/common/rope_angles.h"

// Scalar loops in this file are left to the compiler's vectoriser. Their operations round once each
// and do not sum over elements, so vectorisation cannot change a bit.

HWY_BEFORE_NAMESPACE();
namespace veery {
namespace HWY_NAMESPACE {
namespace {

// Returns sin and cos with an error of about 1e-10, for 0 <= x < 2^30: x = n pi/2 + r, Taylor
// series of r in [-pi/4, pi/4].
struct SinCos {
  double sin, cos;
};
HWY_INLINE SinCos sin_cos(double x) {
  // Adding and subtracting 1.5 * 2^52 rounds to an integer; the low bits of the sum are those of
  // the integer.
  constexpr double kRound = 6755399441055744.0;
  const double shifted = x * 0.63661977236758134308 + kRound;
  const double n = shifted - kRound;
  const auto quadrant = __builtin_bit_cast(uint64_t, shifted);
  double r = __builtin_fma(n, -1.57079632679489655800, x);
  r = __builtin_fma(n, -6.12323399573676603587e-17, r);
  const double z = r * r;
  double s = __builtin_fma(z, -1.0 / 39916800, 1.0 / 362880);
  s = __builtin_fma(z, s, -1.0 / 5040);
  s = __builtin_fma(z, s, 1.0 / 120);
  s = __builtin_fma(z, s, -1.0 / 6);
  s = __builtin_fma(z * r, s, r);
  double c = __builtin_fma(z, 1.0 / 479001600, -1.0 / 3628800);
  c = __builtin_fma(z, c, 1.0 / 40320);
  c = __builtin_fma(z, c, -1.0 / 720);
  c = __builtin_fma(z, c, 1.0 / 24);
  c = __builtin_fma(z, c, -0.5);
  c = __builtin_fma(z, c, 1.0);
  const double first = (quadrant & 1) != 0 ? c : s;
  const double second = (quadrant & 1) != 0 ? s : c;
  return {(quadrant & 2) != 0 ? -first : first, ((quadrant + 1) & 2) != 0 ? -second : second};
}

struct Rotation {
  int64_t head_dim;
  int64_t half;  ///< number of pairs that are rotated
  bool interleaved;
  int64_t begin = 0;  ///< first rotated dimension
};

// cos and sin of a row, in separate arrays.
struct Angles {
  float* cos;
  float* sin;
};
HWY_INLINE void split_angles(const float* angles, int64_t half, float sign, Angles to) {
  for (int64_t i = 0; i < half; ++i) {
    to.cos[i] = angles[2 * i];
    to.sin[i] = angles[2 * i + 1] * sign;
  }
}

// `out` may be `x`; otherwise they must not overlap.
HWY_INLINE void rotate(const float* x, const Angles& angles, const Rotation& how, float* out) {
  if (x != out) {
    std::copy(x, x + how.begin, out);
    std::copy(x + how.begin + 2 * how.half, x + how.head_dim, out + how.begin + 2 * how.half);
  }
  x += how.begin;
  out += how.begin;
  const float* cos = angles.cos;
  const float* sin = angles.sin;
  if (how.interleaved) {
#pragma GCC ivdep
    for (int64_t i = 0; i < how.half; ++i) {
      const float a = x[2 * i];
      const float b = x[2 * i + 1];
      out[2 * i] = a * cos[i] - b * sin[i];
      out[2 * i + 1] = a * sin[i] + b * cos[i];
    }
  } else {
#pragma GCC ivdep
    for (int64_t i = 0; i < how.half; ++i) {
      const float a = x[i];
      const float b = x[i + how.half];
      out[i] = a * cos[i] - b * sin[i];
      out[i + how.half] = a * sin[i] + b * cos[i];
    }
  }
}

HWY_INLINE void norm_and_rotate(const Operand& norm, const float* x, const Angles& angles,
                                float eps, const Rotation& how, float* out) {
  const int64_t n = how.head_dim;
  if (!norm) return rotate(x, angles, how, out);
  const Row row{x, norm.row<float>(0), inverse_rms(x, n, eps)};
  int64_t i = 0;
  for (; i + 16 <= n; i += 16) store(out + i, row.at(i));
  if (i < n) store_first(out + i, row.first(i, static_cast<int>(n - i)), static_cast<int>(n - i));
  rotate(out, angles, how, out);
}

// Quantises a block of 32 for a q8_0 KV cache (Q8Tile in pages.h): writes codes[32], returns the
// scale as f16, NaN if a value is not finite.
HWY_INLINE uint16_t quantise_block(const float* x, int8_t* codes) {
  const F32 a = load(x);
  const F32 b = load(x + 16);
  const float poison = sum(add(sub(a, a), sub(b, b)));  // NaN if a value is not finite, else 0
  alignas(32) uint16_t stored[16];
  store_f16(stored, set(max_of(max(abs(a), abs(b))) / 127 + poison));
  const F32 scale = load_f16(stored);
  const Mask scaled = greater(scale, zero());
  const auto code = [&](F32 v) {
    const F32 q = min(set(127.0F), max(set(-127.0F), div(v, scale)));
    return to_int(select(scaled, q, zero()));
  };
  store_i8(codes, code(a));
  store_i8(codes + 16, code(b));
  return stored[0];
}

HWY_INLINE void put_q8(const float* x, int64_t n, bool keys, int64_t lane, Q8Tile* tiles) {
  for (int64_t i = 0; i < n; i += 32, ++tiles) {
    if (!keys) {
      tiles->scales[lane] = quantise_block(x + i, tiles->codes + lane * 32);
      continue;
    }
    alignas(32) int8_t codes[32];
    tiles->scales[lane] = quantise_block(x + i, codes);
    for (int64_t k = 0; k < 32; ++k) tiles->codes[k * kLanes + lane] = codes[k];
  }
}

template <typename T>
HWY_INLINE void put_head(const T* x, int64_t n, bool keys, T* to) {
  if (!keys) {
    std::copy_n(x, n, to);
    return;
  }
  for (int64_t i = 0; i < n; ++i) to[i * kLanes] = x[i];
}

// Writes one head of row r to its page of the KV cache. `half` is a buffer of n elements, rounded
// up to 16.
HWY_INLINE void write_head(const Operand& cache, const RunShape& shape, int64_t r, int64_t head,
                           const float* x, int64_t n, uint16_t* half) {
  const int64_t position = shape.position(r);
  std::byte* page = page_of(cache, shape, shape.sequence(r), position);
  const bool keys = cache.layout == Layout::kKeyPages;
  if (cache.dtype == DType::kQ8_0)
    return put_q8(x, n, keys, position % kLanes, q8_tiles(page, head, position, n));
  const int64_t first = keys ? key_offset(head, position, n) : value_offset(head, position, n);
  if (cache.dtype == DType::kF32)
    return put_head(x, n, keys, reinterpret_cast<float*>(page) + first);
  for (int64_t i = 0; i < n; i += 16) {
    const F32 v = n - i >= 16 ? load(x + i) : load_first(x + i, static_cast<int>(n - i));
    cache.dtype == DType::kF16 ? store_f16(half + i, v)
                               : store_u16(half + i, shr<16>(round_to_bf16(v)));
  }
  put_head(half, n, keys, reinterpret_cast<uint16_t*>(page) + first);
}

}  // namespace

void fast_rope_angles(const Dispatch& d, const RunShape& shape, const Worker& worker) {
  const Share rows = share(shape.count(d.out().rows), 1, worker);
  if (rows.begin == rows.end) return;
  const int64_t half = d.out().cols / 2;
  auto* usual = reinterpret_cast<double*>(worker.scratch);
  const RopeFrequencies frequencies(
      d.as<AnglesAttr>(),
      d.in[RopeAnglesIn::kDivisors] ? d.in[RopeAnglesIn::kDivisors].row<float>(0) : nullptr);
  for (int64_t i = 0; i < half; ++i) usual[i] = frequencies(static_cast<int>(i));
  double* extended = usual;
  if (d.in[RopeAnglesIn::kExtended]) {
    extended = usual + half;
    const RopeFrequencies others(d.as<AnglesAttr>(), d.in[RopeAnglesIn::kExtended].row<float>(0));
    for (int64_t i = 0; i < half; ++i) extended[i] = others(static_cast<int>(i));
  }
  const Operand& is_extended = d.in[RopeAnglesIn::kIsExtended];
  for (int64_t r = rows.begin; r < rows.end; ++r) {
    const double position = *d.in[RopeAnglesIn::kPositions].row<int32_t>(r);
    const double magnitude = frequencies.magnitude(position);
    const double* frequency = is_extended && *is_extended.row<int32_t>(r) != 0 ? extended : usual;
    float* out = d.out().row<float>(r);
#pragma GCC ivdep
    for (int64_t i = 0; i < half; ++i) {
      const SinCos at = sin_cos(position * frequency[i]);
      out[2 * i] = static_cast<float>(at.cos * magnitude);
      out[2 * i + 1] = static_cast<float>(at.sin * magnitude);
    }
  }
}

void fast_position_scale(const Dispatch& d, const RunShape& shape, const Worker& worker) {
  const auto& attr = d.as<PositionScaleAttr>();
  const Share rows = share(shape.count(d.out().rows), 1, worker);
  for (int64_t r = rows.begin; r < rows.end; ++r) {
    const auto factor = static_cast<float>(
        position_factor(attr, *d.in[PositionScaleIn::kPositions].row<int32_t>(r)));
    const float* x = d.in[PositionScaleIn::kX].row<float>(r);
    float* out = d.out().row<float>(r);
#pragma GCC ivdep
    for (int64_t i = 0; i < d.out().cols; ++i) out[i] = x[i] * factor;
  }
}

void fast_rope(const Dispatch& d, const RunShape& shape, const Worker& worker) {
  const auto& attr = d.as<RopeAttr>();
  const Rotation how{d.out().cols / attr.heads, attr.dims / 2, attr.interleaved, attr.begin};
  auto* scratch = reinterpret_cast<float*>(worker.scratch);
  const Angles angles{scratch, scratch + how.half};
  const Share rows = share(shape.count(d.out().rows), 1, worker);
  for (int64_t r = rows.begin; r < rows.end; ++r) {
    split_angles(d.in[RopeIn::kAngles].row<float>(r), how.half, attr.sign, angles);
    for (int64_t c = 0; c < d.out().cols; c += how.head_dim)
      rotate(d.in[RopeIn::kX].row<float>(r) + c, angles, how, d.out().row<float>(r) + c);
  }
}

void fast_cache_write(const Dispatch& d, const RunShape& shape, const Worker& worker) {
  const int64_t heads = d.in[CacheWriteIn::kState].rows;
  const int64_t n = d.in[CacheWriteIn::kX].cols / heads;
  auto* half = reinterpret_cast<uint16_t*>(worker.scratch);
  const Share rows = share(shape.count(d.in[CacheWriteIn::kX].rows), 1, worker);
  for (int64_t r = rows.begin; r < rows.end; ++r)
    for (int64_t h = 0; h < heads; ++h)
      write_head(d.in[CacheWriteIn::kState], shape, r, h,
                 d.in[CacheWriteIn::kX].row<float>(r) + h * n, n, half);
}

void fast_qkv_rope(const Dispatch& d, const RunShape& shape, const Worker& worker) {
  const auto& attr = d.as<QkvRopeAttr>();
  const int64_t n = attr.head_dim;
  const Rotation how{n, attr.dims / 2, attr.interleaved};
  auto* scratch = reinterpret_cast<float*>(worker.scratch);
  const Angles angles{scratch, scratch + how.half};
  float* key = scratch + attr.dims;
  auto* half = reinterpret_cast<uint16_t*>(key + n);
  const Share rows = share(shape.count(d.in[QkvRopeIn::kQkv].rows), 1, worker);
  for (int64_t r = rows.begin; r < rows.end; ++r) {
    split_angles(d.in[QkvRopeIn::kAngles].row<float>(r), how.half, 1, angles);
    const float* q = d.in[QkvRopeIn::kQkv].row<float>(r);
    const float* k = q + attr.heads * n;
    const float* v = k + attr.kv_heads * n;
    for (int64_t h = 0; h < attr.heads; ++h)
      norm_and_rotate(d.in[QkvRopeIn::kQueryNorm], q + h * n, angles, attr.eps, how,
                      d.out().row<float>(r) + h * n);
    for (int64_t h = 0; h < attr.kv_heads; ++h) {
      norm_and_rotate(d.in[QkvRopeIn::kKeyNorm], k + h * n, angles, attr.eps, how, key);
      write_head(d.in[QkvRopeIn::kKeys], shape, r, h, key, n, half);
      write_head(d.in[QkvRopeIn::kValues], shape, r, h, v + h * n, n, half);
    }
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace veery
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace veery {
namespace {

size_t frequency_bytes(const Dispatch& d, const RunExtent&) {
  return static_cast<size_t>(d.out().cols) / 2 * sizeof(double) *
         (d.in[RopeAnglesIn::kExtended] ? 2 : 1);
}
size_t angle_bytes(const Dispatch& d, const RunExtent&) {
  return static_cast<size_t>(d.as<RopeAttr>().dims) * sizeof(float);
}
size_t half_bytes(const Dispatch& d, const RunExtent&) {
  return static_cast<size_t>(d.in[CacheWriteIn::kX].cols / d.in[CacheWriteIn::kState].rows + 16) *
         sizeof(uint16_t);
}
size_t head_bytes(const Dispatch& d, const RunExtent&) {
  const auto& attr = d.as<QkvRopeAttr>();
  return static_cast<size_t>(attr.dims + attr.head_dim) * sizeof(float) +
         static_cast<size_t>(attr.head_dim + 16) * sizeof(uint16_t);
}

bool takes_angles(const Dispatch& d, const KernelChoice&) {
  return is_matrix(d.in[RopeAnglesIn::kPositions], DType::kI32) &&
         absent_or_matrix(d.in[RopeAnglesIn::kDivisors]) &&
         absent_or_matrix(d.in[RopeAnglesIn::kExtended]) && is_matrix(d.out());
}
bool takes_rope(const Dispatch& d, const KernelChoice&) {
  return is_matrix(d.in[RopeIn::kX]) && is_matrix(d.in[RopeIn::kAngles]) && is_matrix(d.out());
}
bool takes_position_scale(const Dispatch& d, const KernelChoice&) {
  return is_matrix(d.in[PositionScaleIn::kX]) &&
         is_matrix(d.in[PositionScaleIn::kPositions], DType::kI32) && is_matrix(d.out());
}
bool takes_write(const Dispatch& d, const KernelChoice&) {
  return is_matrix(d.in[CacheWriteIn::kX]) && is_cache(d.in[CacheWriteIn::kState]);
}
bool takes_qkv(const Dispatch& d, const KernelChoice&) {
  return takes_rope(d, {}) && is_cache(d.in[QkvRopeIn::kKeys]) &&
         is_cache(d.in[QkvRopeIn::kValues]) && absent_or_matrix(d.in[QkvRopeIn::kQueryNorm]) &&
         absent_or_matrix(d.in[QkvRopeIn::kKeyNorm]);
}

constexpr KernelRow kRows[] = {
    VEERY_F32_ROWS(op::kRopeAngles, takes_angles, rope_angles, frequency_bytes),
    VEERY_F32_ROWS(op::kRope, takes_rope, rope, angle_bytes),
    VEERY_F32_ROWS(op::kPositionScale, takes_position_scale, position_scale, nullptr),
    VEERY_F32_ROWS(op::kCacheWrite, takes_write, cache_write, half_bytes),
    VEERY_F32_ROWS(op::kQkvRope, takes_qkv, qkv_rope, head_bytes),
};

}  // namespace

KernelRows fast_rope() { return kRows; }

}  // namespace veery
#endif
