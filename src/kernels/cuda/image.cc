#include "kernels/cuda/image.h"

#if defined(VEERY_CUDA_IMAGE)
asm(".section .rodata\n"
    ".balign 64\n"
    "veery_cuda_image:\n"
    ".incbin \"" VEERY_CUDA_IMAGE
    "\"\n"
    "veery_cuda_image_end:\n"
    ".byte 0\n"
    ".previous\n");
extern "C" const std::byte veery_cuda_image[];      // NOLINT
extern "C" const std::byte veery_cuda_image_end[];  // NOLINT
#endif

namespace veery::cuda {

std::span<const std::byte> kernel_image() {
#if defined(VEERY_CUDA_IMAGE)
  return {veery_cuda_image, veery_cuda_image_end};
#else
  return {};
#endif
}

}  // namespace veery::cuda
