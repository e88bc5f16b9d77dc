// peak_rates.h: loops that measure a device's peak rates of memory and arithmetic.
#pragma once
#include "kernels/gpu/dialect/compat.h"

namespace veery::gpu {

/// Bytes to be read; the size is a multiple of 16.
struct alignas(16) MemoryRange {
  const VEERY_DEVICE uint8_t* data;
  int64_t size;
};
struct PeakReadParams {
  const VEERY_DEVICE MemoryRange* ranges;
  int32_t count;
  VEERY_DEVICE uint32_t* sink;  ///< makes the compiler keep the loop
};

enum class Math : int32_t { kF32, kBF16, kInt8 };
struct PeakMathParams {
  Math math;
  int32_t iterations;
  VEERY_DEVICE uint32_t* sink;  ///< makes the compiler keep the loop
};
/// Operations of a warp per iteration; a multiply-add counts as two.
VEERY_GPU_HOST constexpr int operations_per_iteration(Math math) {
  constexpr int kChains = 8, kTiles = 4;
  return math == Math::kF32 ? 2 * 32 * kChains
                            : 2 * 16 * 8 * (math == Math::kBF16 ? 16 : 32) * kTiles;
}

}  // namespace veery::gpu

#if defined(VEERY_GPU_CODE)
namespace veery::gpu {

/// Reads memory: all threads of all blocks stride through it together.
VEERY_GPU void peak_read(const VEERY_THREAD PeakReadParams& a VEERY_CONTEXT) {
  wait_for_dependencies();
  constexpr int kInFlight = 4;
  const int64_t all = int64_t{blocks_x()} * threads();
  const int64_t own = int64_t{block_x()} * threads() + thread();
  uint32_t sink = 0;
  for (int p = 0; p < a.count; ++p) {
    const VEERY_DEVICE uint8_t* data = a.ranges[p].data;
    const int64_t words = a.ranges[p].size / 16;
    for (int64_t i = own; i < words; i += kInFlight * all) {
      Four<uint32_t> word[kInFlight];
      VEERY_UNROLL(4)
      for (int j = 0; j < kInFlight; ++j)
        word[j] = i + j * all < words ? load<Four<uint32_t>>(data + (i + j * all) * 16)
                                      : Four<uint32_t>{};
      VEERY_UNROLL(4)
      for (int j = 0; j < kInFlight; ++j) sink ^= word[j].x ^ word[j].y ^ word[j].z ^ word[j].w;
    }
  }
  // Almost never true. It keeps the compiler from removing the loop.
  if (sink == 0x9e3779b9U) *a.sink = sink;
}

/// Multiplies operands in registers, by the instructions that the kernels use. A warp executes
/// operations_of() operations per iteration.
VEERY_GPU void peak_math(const VEERY_THREAD PeakMathParams& a VEERY_CONTEXT) {
  wait_for_dependencies();
  constexpr int kChains = 8, kTiles = 4;
  const uint32_t tile[4] = {0x01020304U, 0x04030201U, 0x02010403U, 0x03040102U};  // small as bf16
  uint32_t sink = 0;
  if (a.math == Math::kF32) {
    float y[kChains] = {};
    for (int iteration = 0; iteration < a.iterations; ++iteration) VEERY_UNROLL(8)
    for (int i = 0; i < kChains; ++i)
      y[i] = fma(y[i], 0.5F, static_cast<float>(thread() % kWarp + i));
    for (int i = 0; i < kChains; ++i) sink ^= static_cast<uint32_t>(float_to_bits(y[i]));
  } else if (a.math == Math::kBF16) {
    if constexpr (kHasTensorCores) {
      float c[kTiles][4] = {};
      for (int iteration = 0; iteration < a.iterations; ++iteration) VEERY_UNROLL(4)
      for (int i = 0; i < kTiles; ++i) mma_m16n8k16_bf16(c[i], tile, tile[i], tile[3 - i]);
      for (int i = 0; i < kTiles; ++i) sink ^= static_cast<uint32_t>(float_to_bits(c[i][i]));
    }
  } else {
    int32_t c[kTiles][4] = {};
    for (int iteration = 0; iteration < a.iterations; ++iteration) VEERY_UNROLL(4)
    for (int i = 0; i < kTiles; ++i) mma_m16n8k32_s8(c[i], tile, tile[i], tile[3 - i]);
    for (int i = 0; i < kTiles; ++i) sink ^= static_cast<uint32_t>(c[i][i]);
  }
  if (sink == 0x9e3779b9U) *a.sink = sink;
}

}  // namespace veery::gpu
#endif  // VEERY_GPU_CODE

#define VEERY_GPU_PEAK_RATES_KERNELS(X)                        \
  VEERY_GPU_SINGLE(X, kShared, peak_read, PeakReadParams, 256) \
  VEERY_GPU_SINGLE(X, kShared, peak_math, PeakMathParams, 256)
