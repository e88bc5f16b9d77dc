// reference.h: tensors as plain vectors of doubles, for tests.
#pragma once
#include <cmath>
#include <functional>
#include <vector>

#include "base/random.h"
#include "veery/tensor.hpp"

namespace veery::tensor::test {

/// Numbers of any type, rounded to it, so that results can be compared exactly.
inline Tensor numbers(const Shape& shape, Dtype type, uint64_t seed, double low = -3,
                      double high = 3) {
  Random random(seed);
  int64_t count = 1;
  for (const int64_t size : shape) count *= size;
  std::vector<double> values(static_cast<size_t>(count));
  for (double& value : values) value = low + (high - low) * static_cast<double>(random.uniform());
  return astype(Tensor::of<double>(std::span<const double>(values), shape), type);
}

/// |a - b| relative to the larger, or absolute below 1; 0 for two NaNs or equal infinities.
inline double distance(double a, double b) {
  if (a == b || (std::isnan(a) && std::isnan(b))) return 0;
  if (std::isnan(a) || std::isnan(b)) return INFINITY;
  return std::fabs(a - b) / std::max({1.0, std::fabs(a), std::fabs(b)});
}
inline double distance(const Tensor& a, const Tensor& b) {
  const std::vector<double> x = a.values<double>(), y = b.values<double>();
  if (a.shape() != b.shape()) return INFINITY;
  double most = 0;
  for (size_t i = 0; i < x.size(); ++i) most = std::max(most, distance(x[i], y[i]));
  return most;
}

/// The gradient of a function of one f64 tensor by central differences.
inline Tensor differences(const std::function<Tensor(const Tensor&)>& fn, const Tensor& x,
                          double step = 1e-6) {
  std::vector<double> values = x.values<double>(), gradient(values.size());
  for (size_t i = 0; i < values.size(); ++i) {
    const double at = values[i];
    const auto value = [&](double moved) {
      values[i] = moved;
      return fn(Tensor::of<double>(std::span<const double>(values), x.shape())).item<double>();
    };
    gradient[i] = (value(at + step) - value(at - step)) / (2 * step);
    values[i] = at;
  }
  return Tensor::of<double>(std::span<const double>(gradient), x.shape());
}

}  // namespace veery::tensor::test
