// element_map.h: element-wise functions of tensors.
#pragma once
#include "kernels/gpu/params/tensor_params.h"

namespace veery::gpu {

/// Threads of a block, and elements of a thread: of programs whose operands all have 2 bytes, of
/// other programs, and of programs with registers of 64 bits.
VEERY_CONSTANT int kMapThreads = 256, kNarrowThreads = 128;
VEERY_CONSTANT int kNarrowElements = 16, kMapElements = 8, kWideElements = 4;

}  // namespace veery::gpu

#if defined(VEERY_CUDA_CODE)
#include "kernels/gpu/kernels/tensor/element_steps-inl.h"

namespace veery::gpu {

template <typename Word, int kElements, bool kLean>
VEERY_GPU void element_map(const ElementSteps& a) {
  wait_for_dependencies();
  ElementInterpreter<Word, kElements, VectorElements, kLean> program(a);
  const int64_t tile = int64_t{threads()} * kElements;
  for (int64_t first = block_x() * tile; first < a.size; first += blocks_x() * tile)
    program.run({first + int64_t{thread()} * 4, a.size, threads()});
}

}  // namespace veery::gpu
#endif  // VEERY_CUDA_CODE

#define VEERY_GPU_ELEMENT_MAP_KERNELS(X)                                                   \
  X(kCuda, element_map, ElementSteps, veery::gpu::kMapThreads, 3, key::single(),           \
    (element_map<uint32_t, kMapElements, true>))                                           \
  X(kCuda, element_map_narrow, ElementSteps, veery::gpu::kNarrowThreads, 5, key::single(), \
    (element_map<uint32_t, kNarrowElements, true>))                                        \
  X(kCuda, element_map_any, ElementSteps, veery::gpu::kMapThreads, 3, key::single(),       \
    (element_map<uint32_t, kMapElements, false>))                                          \
  X(kCuda, element_map_wide, ElementSteps, veery::gpu::kMapThreads, 2, key::single(),      \
    (element_map<uint64_t, kWideElements, false>))
