// cast.h: values in another element type (op::kCast).
#pragma once
#include "kernels/gpu/params/run.h"

namespace veery::gpu {

enum class CastType : int32_t { kF32, kF16, kBF16, kI32, kU8 };

struct CastParams {
  Run run;
  const VEERY_DEVICE uint8_t* x;
  VEERY_DEVICE uint8_t* out;
  int64_t x_stride, out_stride;  ///< bytes
  int64_t rows;                  ///< a code of Operand::rows
  int32_t cols;
  CastType from, to;
};

}  // namespace veery::gpu

#if defined(VEERY_GPU_CODE)
namespace veery::gpu {

VEERY_GPU float cast_element(CastType type, const VEERY_DEVICE uint8_t* row, int i) {
  switch (type) {
    case CastType::kF16:
      return f16_to_float(reinterpret_cast<const VEERY_DEVICE uint16_t*>(row)[i]);
    case CastType::kBF16:
      return bf16_to_float(reinterpret_cast<const VEERY_DEVICE uint16_t*>(row)[i]);
    case CastType::kI32:
      return static_cast<float>(reinterpret_cast<const VEERY_DEVICE int32_t*>(row)[i]);
    case CastType::kU8: return static_cast<float>(row[i]);
    case CastType::kF32: break;
  }
  return reinterpret_cast<const VEERY_DEVICE float*>(row)[i];
}

/// Converts towards zero, clamped to [low, high]; NaN becomes 0. `end`: the smallest float above
/// `high`.
VEERY_GPU int32_t clamped_to_int(float x, int32_t low, int32_t high, float end) {
  if (!(x > static_cast<float>(low))) return x != x ? 0 : low;
  return x >= end ? high : static_cast<int32_t>(x);
}

VEERY_GPU void set_cast_element(CastType type, VEERY_DEVICE uint8_t* row, int i, float x) {
  switch (type) {
    case CastType::kF32: reinterpret_cast<VEERY_DEVICE float*>(row)[i] = x; break;
    case CastType::kF16: reinterpret_cast<VEERY_DEVICE uint16_t*>(row)[i] = float_to_f16(x); break;
    case CastType::kBF16:
      reinterpret_cast<VEERY_DEVICE uint16_t*>(row)[i] = float_to_bf16(x);
      break;
    case CastType::kI32:
      reinterpret_cast<VEERY_DEVICE int32_t*>(row)[i] =
          clamped_to_int(x, -2147483647 - 1, 2147483647, 2147483648.0F);
      break;
    case CastType::kU8: row[i] = static_cast<uint8_t>(clamped_to_int(x, 0, 255, 256.0F)); break;
  }
}

/// One thread block per row.
VEERY_GPU void cast(const VEERY_THREAD CastParams& a VEERY_CONTEXT) {
  wait_for_dependencies();
  const int64_t r = block_x();
  if (r >= a.run.count(a.rows)) return;
  const VEERY_DEVICE uint8_t* x = a.x + r * a.x_stride;
  VEERY_DEVICE uint8_t* out = a.out + r * a.out_stride;
  for (int c = thread(); c < a.cols; c += threads())
    set_cast_element(a.to, out, c, cast_element(a.from, x, c));
}

}  // namespace veery::gpu
#endif  // VEERY_GPU_CODE

#define VEERY_GPU_CAST_KERNELS(X) VEERY_GPU_SINGLE(X, kShared, cast, CastParams, 256)
