// formulas.h: the scalar formulas that reference kernels, fast kernels and tests share.
#pragma once
#include <algorithm>
#include <cmath>

#include "graph/attr.h"

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

// gelu_erf(x) = x F(x), F the distribution function of the normal distribution.
inline float gelu_erf(float x) { return 0.5F * x * std::erfc(-x * 0.7071067811865475F); }
inline float gelu_erf_slope(float x) {
  const float density = 0.3989422804014327F * std::exp(-0.5F * x * x);
  return 0.5F * std::erfc(-x * 0.7071067811865475F) + x * density;
}

/// What an expert makes of gate and up, as MoeAttr says.
inline float gated(const MoeAttr& attr, float g, float u) {
  if (attr.limit > 0) {
    g = std::min(g, attr.limit);
    u = std::clamp(u, -attr.limit, attr.limit);
    return g * sigmoid(attr.alpha * g) * (u + 1);
  }
  const bool smooth = attr.activation == Activation::kGeluErf;
  return (attr.activation == Activation::kSilu ? silu(g) : smooth ? gelu_erf(g) : gelu(g)) * u;
}

inline float softcap(float x, float cap) { return cap * std::tanh(x / cap); }
inline float softcap_slope(float x, float cap) {
  const float t = std::tanh(x / cap);
  return 1 - t * t;
}

inline float activated(float x, Activation activation) {
  switch (activation) {
    case Activation::kNone: return x;
    case Activation::kSilu: return silu(x);
    case Activation::kGelu: return gelu(x);
    case Activation::kGeluErf: return gelu_erf(x);
  }
  return x;
}

}  // namespace veery
