// dequantize.h: converts packed weights to bf16 rows for cuBLASLt.
#pragma once
#include "kernels/gpu/packing/weight_format.h"
#include "kernels/gpu/params/run.h"

namespace veery::gpu {

VEERY_CONSTANT int kDequantizeColumns = 128;  ///< of a panel per thread block

/// Expands a weight to row-major bf16.
struct DequantizeParams {
  Weight weight;
  VEERY_DEVICE uint16_t* out;  ///< [rows][cols]
};

}  // namespace veery::gpu

#if defined(VEERY_CUDA_CODE)
#include "kernels/gpu/dialect/tensor_cores.h"
#include "kernels/gpu/kernels/rows.h"

namespace veery::gpu {

// Each warp converts a row, each lane 4 of its columns. The number of columns is a multiple of 4.
template <WeightFormat kFormat>
VEERY_GPU void dequantize_as(const DequantizeParams& a) {
  const Weight& w = a.weight;
  const int k = block_y() * kDequantizeColumns + 4 * lane();
  if (k >= w.cols) return;
  VEERY_UNROLL(2)
  for (int n = warp(); n < 16; n += warps()) {
    const int64_t row = int64_t{block_x()} * 16 + n;
    if (row >= w.rows) return;
    float v[4];
    VEERY_UNROLL(4)
    for (int i = 0; i < 4; ++i) v[i] = element<kFormat>(w, row, k + i);
    *reinterpret_cast<Two<uint32_t>*>(a.out + row * w.cols + k) = {pack_bf16x2(v[0], v[1]),
                                                                   pack_bf16x2(v[2], v[3])};
  }
}

/// Each element is the value that decode.h gives, rounded to bf16. A thread block has a panel and
/// some of its columns.
VEERY_GPU void dequantize(const DequantizeParams& a) {
  wait_for_dependencies();
  switch (a.weight.format) {
    case kQ8: return dequantize_as<kQ8>(a);
    case kQ8M: return dequantize_as<kQ8M>(a);
    case kQ4: return dequantize_as<kQ4>(a);
    case kQ4M: return dequantize_as<kQ4M>(a);
    case kK4M: return dequantize_as<kK4M>(a);
    case kK8M: return dequantize_as<kK8M>(a);
    case kK8: return dequantize_as<kK8>(a);
    case kK8M16: return dequantize_as<kK8M16>(a);
    case kMXFP4: return dequantize_as<kMXFP4>(a);
    case kQ4MW: return dequantize_as<kQ4MW>(a);
    case kQ8MW: return dequantize_as<kQ8MW>(a);
    case kNVFP4: return dequantize_as<kNVFP4>(a);
    case kF32: return dequantize_as<kF32>(a);
    case kF16: return dequantize_as<kF16>(a);
    case kF8: return dequantize_as<kF8>(a);
    default: return dequantize_as<kBF16>(a);
  }
}

}  // namespace veery::gpu
#endif  // VEERY_CUDA_CODE

#define VEERY_GPU_DEQUANTIZE_KERNELS(X) \
  VEERY_GPU_SINGLE(X, kRelaxed, dequantize, DequantizeParams, 256)
