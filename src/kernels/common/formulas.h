// formulas.h: scalar formulas and derivatives (..._slope) shared by reference kernels, fast kernels
// and tests.
#pragma once
#include <algorithm>
#include <cmath>

#include "graph/ops/ops.h"

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

// gelu_erf(x) = x F(x), F being the normal distribution function.
inline float gelu_erf(float x) { return 0.5F * x * std::erfc(-x * 0.7071067811865475F); }
inline float gelu_erf_slope(float x) {
  const float density = 0.3989422804014327F * std::exp(-0.5F * x * x);
  return 0.5F * std::erfc(-x * 0.7071067811865475F) + x * density;
}

inline float softplus(float x) { return std::max(x, 0.0F) + std::log1p(std::exp(-std::fabs(x))); }

inline float relu(float x) { return std::max(x, 0.0F); }

inline float xielu(float x, const ActivateAttr& a) {
  const float curve =
      x > 0 ? a.positive * x * x : a.negative * (std::expm1(std::min(x, a.eps)) - x);
  return curve + a.beta * x;
}
// Ignores the clamp of xielu() at eps, which exists only for numerical reasons.
inline float xielu_slope(float x, const ActivateAttr& a) {
  return (x > 0 ? 2 * a.positive * x : a.negative * std::expm1(x)) + a.beta;
}

inline float activated(float x, const ActivateAttr& attr) {
  switch (attr.kind) {
    case Activation::kNone: return x;
    case Activation::kSilu: return silu(x);
    case Activation::kGelu: return gelu(x);
    case Activation::kGeluErf: return gelu_erf(x);
    case Activation::kRelu: return relu(x);
    case Activation::kReluSquared: return relu(x) * relu(x);
    case Activation::kXielu: return xielu(x, attr);
    case Activation::kTanh: return std::tanh(x);
    case Activation::kSigmoid: return sigmoid(x);
    case Activation::kSoftplus: return softplus(x);
    case Activation::kLogSigmoid: return -softplus(-x);
    case Activation::kClip: return std::min(std::max(x, attr.negative), attr.positive);
  }
  return x;
}
inline float activated_slope(float x, const ActivateAttr& attr) {
  switch (attr.kind) {
    case Activation::kNone: return 1;
    case Activation::kSilu: return silu_slope(x);
    case Activation::kGelu: return gelu_slope(x);
    case Activation::kGeluErf: return gelu_erf_slope(x);
    case Activation::kRelu: return x > 0 ? 1.0F : 0.0F;
    case Activation::kReluSquared: return 2 * relu(x);
    case Activation::kXielu: return xielu_slope(x, attr);
    case Activation::kTanh: return 1 - std::tanh(x) * std::tanh(x);
    case Activation::kSigmoid: return sigmoid(x) * (1 - sigmoid(x));
    case Activation::kSoftplus: return sigmoid(x);
    case Activation::kLogSigmoid: return sigmoid(-x);
    case Activation::kClip: return x > attr.negative && x < attr.positive ? 1.0F : 0.0F;
  }
  return 1;
}

/// Returns the hidden value of an expert for gate g and up u (MoeAttr).
inline float gated(const MoeAttr& attr, float g, float u) {
  if (attr.limit > 0) {
    g = std::min(g, attr.limit);
    u = std::clamp(u, -attr.limit, attr.limit);
    return g * sigmoid(attr.alpha * g) * (u + 1);
  }
  return activated(g, attr.activation) * u;
}
/// The derivatives of gated() by g and by u.
struct GatedSlopes {
  float by_gate, by_up;
};
inline GatedSlopes gated_slopes(const MoeAttr& attr, float g, float u) {
  if (attr.limit > 0) {
    const bool gate_moves = g < attr.limit, up_moves = std::abs(u) < attr.limit;
    g = std::min(g, attr.limit);
    u = std::clamp(u, -attr.limit, attr.limit);
    const float s = sigmoid(attr.alpha * g);
    return {gate_moves ? s * (1 + attr.alpha * g * (1 - s)) * (u + 1) : 0, up_moves ? g * s : 0};
  }
  return {activated_slope(g, attr.activation) * u, activated(g, attr.activation)};
}

inline float softcap(float x, float cap) { return cap * std::tanh(x / cap); }
inline float softcap_slope(float x, float cap) {
  const float t = std::tanh(x / cap);
  return 1 - t * t;
}

/// Returns the ALiBi slope of a head (AttendAttr::alibi). If the number of heads is not a power of
/// two, the slopes of the heads beyond that power lie between those of the first heads.
inline float alibi_slope(const AttendAttr& attr, int64_t head) {
  if (attr.alibi == 0) return 0;
  int64_t whole = 1;
  while (2 * whole <= attr.heads) whole *= 2;
  const double step = head < whole ? static_cast<double>(head + 1)
                                   : static_cast<double>(2 * (head - whole) + 1) / 2;
  return static_cast<float>(std::exp2(-attr.alibi * step / static_cast<double>(whole)));
}

}  // namespace veery
