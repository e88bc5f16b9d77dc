// fp8.h: 8-bit floats, and blocks of them with a scale.
#pragma once
#include "dtype/blocks.h"
#include "dtype/dtype.h"
#include "dtype/half.h"

namespace veery {

constexpr bool is_fp8(DType type) {
  return type == DType::kMXFP8 || type == DType::kFP8_32 || type == DType::kFP8_128;
}

/// The factor that corrects the exponent bias when E4M3 bits are placed in an f32.
inline constexpr float kE4M3 = 0x1p120F;
/// From this scale on, its product with kE4M3 overflows f32; kernels for FP8 blocks only accept
/// smaller scales.
inline constexpr float kScaleLimitFP8 = 128;
/// The same limit for the exponent bytes of MXFP8: 135 stands for 2^8.
inline constexpr uint8_t kScaleLimitMXFP8 = 135;

/// Decodes an E4M3: 4-bit exponent (bias 7), 3-bit fraction, no infinities. NaN codes decode to
/// +-480. Source: Micikevicius et al., arXiv:2209.05433, table 1.
inline float e4m3_to_f32(uint8_t x) {
  return float_of_bits((x & 0x80U) << 24 | (x & 0x7FU) << 20) * kE4M3;
}
inline bool is_nan_e4m3(uint8_t x) { return (x & 0x7F) == 0x7F; }

/// Returns 2^(e - 127), a scale of OCP Microscaling 1.0. e = 255, which is NaN there, decodes to
/// 2^128.
inline float e8m0_to_f32(uint8_t e) {
  return float_of_bits(e == 0 ? 0x00400000U : static_cast<uint32_t>(e) << 23);
}

inline void decode_block(const BlockMXFP8& b, float* y) {
  const float d = e8m0_to_f32(b.e);
  for (int i = 0; i < 32; ++i) y[i] = d * e4m3_to_f32(b.qs[i]);
}
template <int kElements>
void decode_block(const BlockFP8<kElements>& b, float* y) {
  for (int i = 0; i < kElements; ++i) y[i] = b.d * e4m3_to_f32(b.qs[i]);
}

}  // namespace veery
