// expand.h: weights as bf16, row after row, for products that a library makes.
#pragma once
#include "kernels/gpu/params/relaxed_params.h"
#include "kernels/gpu/dialect/tensor_cores.h"
#include "kernels/gpu/kernels/rows.h"

namespace veery::gpu {

// A warp a row, a lane 4 columns of it, which are a multiple of 4.
template <Format kFormat>
VEERY_GPU void expand_as(const ExpandArguments& a) {
  const Weight& w = a.weight;
  const int k = block_y() * kExpandColumns + 4 * lane();
  if (k >= w.cols) return;
  VEERY_UNROLL(2)
  for (int n = warp(); n < 16; n += warps()) {
    const int64_t row = int64_t{block_x()} * 16 + n;
    if (row >= w.rows) return;
    float v[4];
    VEERY_UNROLL(4)
    for (int i = 0; i < 4; ++i) v[i] = element<kFormat>(w, row, k + i);
    *reinterpret_cast<Two<uint32_t>*>(a.out + row * w.cols + k) = {pair_of_bf16(v[0], v[1]),
                                                                   pair_of_bf16(v[2], v[3])};
  }
}

/// Each element is what decode.h makes of it, rounded to bf16. A block of threads has a panel and
/// some of its columns.
VEERY_GPU void expand(const ExpandArguments& a) {
  wait_for_inputs();
  switch (a.weight.format) {
    case kQ8: return expand_as<kQ8>(a);
    case kQ8M: return expand_as<kQ8M>(a);
    case kQ4: return expand_as<kQ4>(a);
    case kQ4M: return expand_as<kQ4M>(a);
    case kK4M: return expand_as<kK4M>(a);
    case kK8M: return expand_as<kK8M>(a);
    case kK8: return expand_as<kK8>(a);
    case kK8M16: return expand_as<kK8M16>(a);
    case kBook: return expand_as<kBook>(a);
    case kQ4MW: return expand_as<kQ4MW>(a);
    case kQ8MW: return expand_as<kQ8MW>(a);
    case kBook2: return expand_as<kBook2>(a);
    case kF32: return expand_as<kF32>(a);
    case kF16: return expand_as<kF16>(a);
    case kF8: return expand_as<kF8>(a);
    default: return expand_as<kBF16>(a);
  }
}

}  // namespace veery::gpu
