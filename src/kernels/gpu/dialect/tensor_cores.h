// tensor_cores.h: for kernels that need not reproduce the CPU's bits (relaxed): operand fragments
// for mma_m16n8k16_bf16() from shared memory, and fast approximate functions.
#pragma once
#include "kernels/gpu/dialect/compat.h"

namespace veery::gpu {

#if defined(__CUDACC__)

/// Loads four 8 x 8 matrices of 16-bit elements. Lane l passes the address of row l % 8 of matrix l
/// / 8, 16-byte aligned. Lane 4 g + t gets elements (g, 2 t) and (g, 2 t + 1) of matrix i in to[i].
VEERY_GPU void ldmatrix_x4(const uint8_t* row, uint32_t (&to)[4]) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
               : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
               : "r"(shared_address(row))
               : "memory");
}
/// Loads the transposed matrices: elements (2 t, g) and (2 t + 1, g).
VEERY_GPU void ldmatrix_x4_trans(const uint8_t* row, uint32_t (&to)[4]) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];"
               : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
               : "r"(shared_address(row))
               : "memory");
}
/// Rounds two numbers to bf16, to nearest even, and packs them; `low` is in the lower half.
VEERY_GPU uint32_t pack_bf16x2(float low, float high) {
  uint32_t both;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(both) : "f"(high), "f"(low));
  return both;
}
/// Returns 2^x within 2 units in the last place; subnormal results become 0.
VEERY_GPU float approx_exp2(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}
/// Returns tanh(x) within 2^-11.
VEERY_GPU float approx_tanh(float x) {
  float y;
  asm("tanh.approx.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}
/// Returns the larger number; if one operand is NaN, the other one.
VEERY_GPU float max_ignoring_nan(float x, float y) { return fmaxf(x, y); }
/// Returns x / y within 2 units in the last place, if |y| <= 2^126.
VEERY_GPU float approx_divide(float x, float y) { return __fdividef(x, y); }

#else

namespace emulated {
inline void ldmatrix_x4(const uint8_t* row, bool transposed, uint32_t (&to)[4]) {
  std::memcpy(exchanged(thread()), &row, sizeof row);
  sync_warp();
  const int first = thread() / 32 * 32, g = thread() % 32 / 4, t = thread() % 4;
  for (int i = 0; i < 4; ++i) {
    uint16_t pair[2];
    for (int e = 0; e < 2; ++e) {
      const int r = transposed ? 2 * t + e : g, c = transposed ? g : 2 * t + e;
      const uint8_t* from;
      std::memcpy(&from, exchanged(first + 8 * i + r), sizeof from);
      std::memcpy(&pair[e], from + 2 * c, 2);
    }
    to[i] = pair[0] | uint32_t{pair[1]} << 16;
  }
  sync_warp();
}
}  // namespace emulated

inline void ldmatrix_x4(const uint8_t* row, uint32_t (&to)[4]) {
  emulated::ldmatrix_x4(row, false, to);
}
inline void ldmatrix_x4_trans(const uint8_t* row, uint32_t (&to)[4]) {
  emulated::ldmatrix_x4(row, true, to);
}
inline uint32_t pack_bf16x2(float low, float high) {
  return float_to_bf16(low) | uint32_t{float_to_bf16(high)} << 16;
}
inline float approx_exp2(float x) { return x < -126.0F ? 0.0F : __builtin_exp2f(x); }
inline float approx_tanh(float x) { return __builtin_tanhf(x); }
inline float max_ignoring_nan(float x, float y) { return __builtin_fmaxf(x, y); }
inline float approx_divide(float x, float y) { return x / y; }

#endif

}  // namespace veery::gpu
