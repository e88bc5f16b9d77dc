// everywhere.h: VEERY_EVERYWHERE marks functions that are compiled for the host and for GPU
// kernels, so that both compute the same bits. Such functions are plain C++ on scalars in which
// every product and every sum is rounded separately (no fma contraction).
#pragma once

#if defined(__CUDACC__)
#define VEERY_EVERYWHERE __host__ __device__ inline
#else
#define VEERY_EVERYWHERE inline
#endif
