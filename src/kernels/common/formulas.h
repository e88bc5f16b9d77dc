// formulas.h: the scalar formulas that reference kernels, fast kernels and tests share.
#pragma once
#include <cmath>

namespace veery {

inline float sigmoid(float x) { return 1 / (1 + std::exp(-x)); }
inline float silu(float x) { return x * sigmoid(x); }
inline float silu_slope(float x) { return sigmoid(x) * (1 + x * (1 - sigmoid(x))); }

// gelu(x) = x/2 (1 + tanh(u)), u = sqrt(2/pi) (x + c x^3) (Hendrycks and Gimpel, arXiv:1606.08415).
inline constexpr float kGeluScale = 0.7978845608028654F;
inline constexpr float kGeluCubic = 0.044715F;

inline float gelu(float x) {
  return 0.5F * x * (1 + std::tanh(kGeluScale * (x + kGeluCubic * x * x * x)));
}
inline float gelu_slope(float x) {
  const float t = std::tanh(kGeluScale * (x + kGeluCubic * x * x * x));
  const float slope = kGeluScale * (1 + 3 * kGeluCubic * x * x);
  return 0.5F * (1 + t) + 0.5F * x * (1 - t * t) * slope;
}

inline float softcap(float x, float cap) { return cap * std::tanh(x / cap); }
inline float softcap_slope(float x, float cap) {
  const float t = std::tanh(x / cap);
  return 1 - t * t;
}

}  // namespace veery
