// metal_kernels.h: the Metal shaders, compiled as C++ for the emulator.
#pragma once
#include <cstddef>
#include <span>
#include <string_view>

namespace veery::metal {

struct Shader {
  std::string_view name;
  void (*function)(const void* arguments);  ///< runs one thread, for gpu::emulated::run()
  size_t bytes;                             ///< size of its arguments in the shader source
  int threads;                              ///< maximum threads per block
};
std::span<const Shader> shaders();

/// Emulated f64 arithmetic of the shaders (soft_f64.h, soft_functions.h).
double soft_sum(double a, double b);
double soft_product(double a, double b);
double soft_fma(double a, double b, double c);
double soft_quotient(double a, double b);
double soft_from(float x);
float soft_to(double x);
double soft_product_of(float a, float b);
bool soft_less(double a, double b);
double soft_root(double x);
double soft_exp(double x);
double soft_tanh(double x);
double soft_log1p(double x);
double soft_log(double x);  ///< of x >= 1

}  // namespace veery::metal
