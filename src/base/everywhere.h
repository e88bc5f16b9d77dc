// everywhere.h: functions that the host and kernels of GPUs have in common, so that both give the
// same bits. They are plain C++ on scalars, whose products and sums are rounded one by one.
#pragma once

#if defined(__CUDACC__)
#define VEERY_EVERYWHERE __host__ __device__ inline
#else
#define VEERY_EVERYWHERE inline
#endif
