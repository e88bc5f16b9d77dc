// Compiles the Metal shaders as C++ for the emulator.
#include "support/metal_kernels.h"

#include <bit>

#include "metal_stdlib"

// Separate names: the CUDA kernels that the emulator runs have the same ones.
#define VEERY_EMULATED
#define VEERY_MEMORY
namespace veery_metal::gpu {
template <typename A>
A copied(constant A& a) {
  A own;
  std::memcpy(&own, (const void*)&a, sizeof own);  // NOLINT(google-readability-casting)
  return own;
}
}  // namespace veery_metal::gpu
#define __METAL_VERSION__ 400
#define veery veery_metal
#include VEERY_METAL_SOURCE
#undef veery
#undef thread
#undef threads
namespace veery::gpu {
// Rows of kernels name these.
using veery_metal::gpu::GemmSimdgroupSmem;
using veery_metal::gpu::ScanSmem;
}  // namespace veery::gpu

namespace veery::metal {
namespace {

using gpu::emulated::context;

uint number(int n) { return static_cast<uint>(n); }
// NOLINTBEGIN(google-readability-casting): only such casts change the address space
#define VEERY_METAL_SHADER(set, name, params, max_threads, least_blocks, key, function)        \
  VEERY_GPU_IF_METAL(set,                                                                      \
                     {"veery_" #name,                                                          \
                      [](const void* a) {                                                      \
                        const gpu::emulated::ThreadContext& at = context();                    \
                        veery_##name(*(constant veery_metal::gpu::params*)a,                   \
                                     (threadgroup uint8_t*)at.shared, number(at.thread),       \
                                     {number(at.x), number(at.y), number(at.z)},               \
                                     {number(at.threads), 1, 1}, {number(at.blocks_x), 1, 1}); \
                      },                                                                       \
                      sizeof(veery_metal::gpu::params), max_threads}, )
// NOLINTEND(google-readability-casting)
constexpr Shader kShaders[] = {VEERY_GPU_KERNELS(VEERY_METAL_SHADER)};

}  // namespace

std::span<const Shader> shaders() { return kShaders; }

using Soft = veery_metal::gpu::Float64;
double soft_sum(double a, double b) {
  return std::bit_cast<double>(std::bit_cast<Soft>(a) + std::bit_cast<Soft>(b));
}
double soft_product(double a, double b) {
  return std::bit_cast<double>(std::bit_cast<Soft>(a) * std::bit_cast<Soft>(b));
}
double soft_quotient(double a, double b) {
  return std::bit_cast<double>(std::bit_cast<Soft>(a) / std::bit_cast<Soft>(b));
}
double soft_fma(double a, double b, double c) {
  return std::bit_cast<double>(veery_metal::gpu::fma(std::bit_cast<Soft>(a), std::bit_cast<Soft>(b),
                                                     std::bit_cast<Soft>(c)));
}
double soft_from(float x) { return std::bit_cast<double>(veery_metal::gpu::to_f64(x)); }
double soft_product_of(float a, float b) {
  return std::bit_cast<double>(veery_metal::gpu::product_f64(a, b));
}
bool soft_less(double a, double b) { return std::bit_cast<Soft>(a) < std::bit_cast<Soft>(b); }
double soft_root(double x) {
  return std::bit_cast<double>(veery_metal::gpu::square_root_f64(std::bit_cast<Soft>(x)));
}
double soft_exp(double x) {
  return std::bit_cast<double>(veery_metal::gpu::exp_f64(std::bit_cast<Soft>(x)));
}
double soft_tanh(double x) {
  return std::bit_cast<double>(veery_metal::gpu::tanh_f64(std::bit_cast<Soft>(x)));
}
double soft_log1p(double x) {
  return std::bit_cast<double>(veery_metal::gpu::log1p_f64(std::bit_cast<Soft>(x)));
}
double soft_log(double x) {
  return std::bit_cast<double>(veery_metal::gpu::log_f64(std::bit_cast<Soft>(x)));
}
float soft_to(double x) { return veery_metal::gpu::to_f32(std::bit_cast<Soft>(x)); }

}  // namespace veery::metal
