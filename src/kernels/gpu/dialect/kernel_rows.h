// kernel_rows.h: how a kernel file lists its kernels. kernels/x.h defines VEERY_GPU_X_KERNELS(X),
// which calls X once per kernel. From all of them (VEERY_GPU_KERNELS of kernels/all.h) are made the
// entry points of CUDA (kernels.cu), Metal (kernels.metal) and the emulator, and the ids and
// descriptors of kernels (machine/kernels.h).
//
//   X(set, name, parameters, most threads of a block, least blocks of an SM, descriptor, function)
//
// The set is a KernelSet: which machines have the kernel. The least number of thread blocks that an
// SM is to hold bounds the registers of a thread. 0 leaves them to nvcc, which then spares
// registers, even by spilling, if one block has all shared memory. The descriptor is expanded only
// on the host.
//
// The host includes kernel files too, for parameters, shared memory layouts and descriptors. Their
// functions are therefore conditional:
//   VEERY_GPU_CODE    kernels are compiled
//   VEERY_CUDA_CODE   ... for CUDA, or for the emulator as for CUDA
//   VEERY_METAL_CODE  ... for Metal
// Headers named *-inl.h have no kernels; only conditional code includes them.
#pragma once

/// A kernel without variants, which is launched by its KernelId.
#define VEERY_GPU_SINGLE(X, set, name, parameters, threads) \
  X(set, name, parameters, threads, 0, key::single(), (name))

/// F for each quantised weight format.
#define VEERY_GPU_EACH_QUANTIZED(F, X, set) \
  F(X, set, q8, kQ8)                        \
  F(X, set, q8m, kQ8M)                      \
  F(X, set, q4, kQ4)                        \
  F(X, set, q4m, kQ4M)                      \
  F(X, set, k4m, kK4M)                      \
  F(X, set, k8m, kK8M)                      \
  F(X, set, k8, kK8)                        \
  F(X, set, k8m16, kK8M16)                  \
  F(X, set, mxfp4, kMXFP4)                  \
  F(X, set, q4mw, kQ4MW)                    \
  F(X, set, q8mw, kQ8MW)                    \
  F(X, set, nvfp4, kNVFP4)

/// F for each type of the cache, with values of up to 128 and up to 256 dimensions.
#define VEERY_GPU_EACH_CACHE(F, X, set) \
  F(X, set, bf16, BF16, kBF16, 1)       \
  F(X, set, bf16, BF16, kBF16, 2)       \
  F(X, set, f16, F16, kF16, 1)          \
  F(X, set, f16, F16, kF16, 2)          \
  F(X, set, f32, float, kF32, 1)        \
  F(X, set, f32, float, kF32, 2)

/// The rest of the arguments if kernels of `set` are compiled for CUDA, and nothing otherwise.
#define VEERY_GPU_IF_CUDA(set, ...) VEERY_GPU_IF_CUDA_##set(__VA_ARGS__)
#define VEERY_GPU_IF_CUDA_kShared(...) __VA_ARGS__
#define VEERY_GPU_IF_CUDA_kCuda(...) __VA_ARGS__
#define VEERY_GPU_IF_CUDA_kRelaxed(...) __VA_ARGS__
// GPUs without wgmma lack these kernels: Machine::has().
#if defined(__CUDACC__) && !defined(__CUDA_ARCH_FEAT_SM90_ALL)
#define VEERY_GPU_IF_CUDA_kWgmma(...)
#else
#define VEERY_GPU_IF_CUDA_kWgmma(...) __VA_ARGS__
#endif
#define VEERY_GPU_IF_CUDA_kMetal(...)

/// The same for Metal.
#define VEERY_GPU_IF_METAL(set, ...) VEERY_GPU_IF_METAL_##set(__VA_ARGS__)
#define VEERY_GPU_IF_METAL_kShared(...) __VA_ARGS__
#define VEERY_GPU_IF_METAL_kCuda(...)
#define VEERY_GPU_IF_METAL_kRelaxed(...)
#define VEERY_GPU_IF_METAL_kWgmma(...)
#define VEERY_GPU_IF_METAL_kMetal(...) __VA_ARGS__
