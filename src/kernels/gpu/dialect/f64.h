// f64.h: double-precision math functions. Their last bit differs between devices; results rounded
// to f32 almost never differ.
#pragma once
#include "kernels/gpu/dialect/compat.h"
#if defined(__METAL_VERSION__)
#include "kernels/gpu/dialect/soft_fma.h"
#include "kernels/gpu/dialect/soft_functions.h"
#else
#if !defined(__CUDACC__)
#include <cmath>
#endif

namespace veery::gpu {

#if defined(__CUDACC__)
VEERY_GPU double exp_f64(double x) { return ::exp(x); }
VEERY_GPU double tanh_f64(double x) { return ::tanh(x); }
VEERY_GPU double log1p_f64(double x) { return ::log1p(x); }
VEERY_GPU double log_f64(double x) { return ::log(x); }
VEERY_GPU double square_root_f64(double x) { return __dsqrt_rn(x); }
#else
VEERY_GPU double exp_f64(double x) { return std::exp(x); }
VEERY_GPU double tanh_f64(double x) { return std::tanh(x); }
VEERY_GPU double log1p_f64(double x) { return std::log1p(x); }
VEERY_GPU double log_f64(double x) { return std::log(x); }
VEERY_GPU double square_root_f64(double x) { return std::sqrt(x); }
#endif
/// Returns a b, exactly.
VEERY_GPU double product_f64(float a, float b) { return double{a} * double{b}; }
/// Returns the integer part of a number between 0 and 2^31.
VEERY_GPU int whole_part(double x) { return static_cast<int>(x); }
VEERY_GPU double load_f64(const double* at) { return *at; }
VEERY_GPU void store_f64(double* at, double x) { *at = x; }

}  // namespace veery::gpu
#endif
