// checks.h: checks of functions of tensor_fast.hpp.
#pragma once
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tensor/reference.h"
#include "veery/tensor_fast.hpp"

namespace veery::tensor::test {

/// A function of several tensors with one result.
using Fn = std::function<Tensor(std::span<const Tensor>)>;

inline Function as_function(const Fn& fn) {
  return [fn](std::span<const Tensor> in) { return std::vector<Tensor>{fn(in)}; };
}
/// The gradients of sum(fn(in) * weights).
inline std::vector<Tensor> gradients(const Fn& fn, std::span<const Tensor> in,
                                     const Tensor& weights) {
  return vjp(as_function(fn), in, {&weights, 1}).second;
}
/// a + step * t for each tensor of floats; others stay.
inline std::vector<Tensor> moved(std::span<const Tensor> a, std::span<const Tensor> t,
                                 double step) {
  std::vector<Tensor> result;
  for (size_t i = 0; i < a.size(); ++i)
    result.push_back(a[i].dtype() == Dtype::kF64 ? a[i] + t[i] * step : a[i]);
  return result;
}

/// Checks the derivatives of `fn` at inputs of f64 against central differences along a direction:
/// reverse and forward mode, and the second derivative in both orders of modes. With `each`, the
/// gradient of each element too.
inline void expect_derivatives(const std::string& what, const Fn& fn, std::span<const Tensor> in,
                               bool each = true) {
  const Tensor y = fn(in), weights = numbers(y.shape(), Dtype::kF64, 901, 0.5, 2);
  std::vector<Tensor> t;
  for (size_t i = 0; i < in.size(); ++i)
    t.push_back(in[i].dtype() == Dtype::kF64 ? numbers(in[i].shape(), Dtype::kF64, 902 + i, -1, 1)
                                             : zeros_like(in[i]));
  const std::vector<Tensor> found = gradients(fn, in, weights);
  for (size_t i = 0; each && i < in.size(); ++i) {
    if (in[i].dtype() != Dtype::kF64) continue;
    const Tensor expected = differences(
        [&](const Tensor& at) {
          std::vector<Tensor> all(in.begin(), in.end());
          all[i] = at;
          return sum(fn(all) * weights);
        },
        in[i]);
    EXPECT_LE(distance(found[i], expected), 2e-7) << what << ": gradient of input " << i;
  }
  constexpr double kStep = 1e-6;
  const auto slope = [&](const Fn& of) {
    return (of(moved(in, t, kStep)) - of(moved(in, t, -kStep))) / (2 * kStep);
  };
  const Tensor forward = jvp(as_function(fn), in, t).second.front();
  EXPECT_LE(distance(forward, slope(fn)), 2e-7) << what << ": forward mode";
  Tensor product = zeros({}, Dtype::kF64);
  for (size_t i = 0; i < in.size(); ++i)
    if (in[i].dtype() == Dtype::kF64) product = product + sum(found[i] * t[i]);
  EXPECT_LE(distance(product, sum(forward * weights)), 1e-9) << what << ": reverse mode";
  for (size_t i = 0; i < in.size(); ++i) {
    if (in[i].dtype() != Dtype::kF64) continue;
    const Fn gradient = [&, i](std::span<const Tensor> at) {
      return gradients(fn, at, weights)[i];
    };
    const Tensor second = jvp(as_function(gradient), in, t).second.front();
    EXPECT_LE(distance(second, slope(gradient)), 1e-6) << what << ": second derivative " << i;
    const std::vector<Tensor> reverse = gradients(gradient, in, t[i]);
    Tensor sums = zeros({}, Dtype::kF64);
    for (size_t k = 0; k < in.size(); ++k)
      if (in[k].dtype() == Dtype::kF64) sums = sums + sum(reverse[k] * t[k]);
    EXPECT_LE(distance(sums, sum(second * t[i])), 1e-8) << what << ": reverse over reverse " << i;
  }
}

/// The values of x in contiguous memory.
inline Tensor copied(const Tensor& x) {
  const std::vector<double> values = x.values<double>();
  return astype(Tensor::of<double>(std::span<const double>(values), x.shape()), x.dtype());
}

inline std::string message_of(const std::function<void()>& fn) {
  try {
    fn();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kInput) << error.what();
    return error.what();
  }
  return "no error";
}

/// The largest relative error that rounding to a type causes, twice.
inline double tolerance(Dtype type) {
  return type == Dtype::kF64   ? 1e-12
         : type == Dtype::kF32 ? 2e-6
         : type == Dtype::kF16 ? 1e-3
                               : 8e-3;
}

}  // namespace veery::tensor::test
