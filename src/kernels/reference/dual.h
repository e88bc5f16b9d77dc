// dual.h: dual numbers, on which a forward formula also computes its tangent.
#pragma once
#include <cmath>

namespace veery::reference {

/// A dual number: value and tangent.
struct Dual {
  double value = 0, slope = 0;
  Dual() = default;
  Dual(double v, double s = 0) : value(v), slope(s) {}  // NOLINT(google-explicit-constructor)
};
inline Dual operator+(Dual a, Dual b) { return {a.value + b.value, a.slope + b.slope}; }
inline Dual operator-(Dual a, Dual b) { return {a.value - b.value, a.slope - b.slope}; }
inline Dual operator*(Dual a, Dual b) {
  return {a.value * b.value, a.slope * b.value + a.value * b.slope};
}
inline Dual operator/(Dual a, Dual b) {
  const double ratio = a.value / b.value;
  return {ratio, (a.slope - ratio * b.slope) / b.value};
}
inline double exponential(double x) { return std::exp(x); }
inline Dual exponential(Dual x) { return {std::exp(x.value), std::exp(x.value) * x.slope}; }
inline double value_of(double x) { return x; }
inline double value_of(Dual x) { return x.value; }
template <typename T>
T larger(T a, T b) {
  return value_of(a) >= value_of(b) ? a : b;
}
template <typename T>
T magnitude(T x) {
  return value_of(x) < 0 ? T(0) - x : x;
}

inline double hyperbolic_tangent(double x) { return std::tanh(x); }
inline Dual hyperbolic_tangent(Dual x) {
  const double y = std::tanh(x.value);
  return {y, (1 - y * y) * x.slope};
}
inline double logistic(double x) { return 1 / (1 + std::exp(-x)); }
inline Dual logistic(Dual x) {
  const double y = logistic(x.value);
  return {y, y * (1 - y) * x.slope};
}
/// log(logistic(x)) without overflow or cancellation for large |x|.
inline double log_logistic(double x) {
  return (x < 0 ? x : 0) - std::log1p(std::exp(-std::fabs(x)));
}
inline Dual log_logistic(Dual x) { return {log_logistic(x.value), logistic(-x.value) * x.slope}; }

}  // namespace veery::reference
