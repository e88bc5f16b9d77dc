// Derivatives against central differences.
#include <algorithm>
#include <cmath>
#include <veery/tensor_transforms.hpp>

#include "tensor/node.h"

namespace veery::tensor {
namespace {

// The difference relative to the larger value, absolute below 1. NaN if one is.
double distance(double a, double b) {
  if (a == b) return 0;
  return std::fabs(a - b) / std::max({1.0, std::fabs(a), std::fabs(b)});
}

// The sum of the products of the floats among tensors.
double inner(std::span<const Tensor> a, std::span<const Tensor> b) {
  double total = 0;
  for (size_t i = 0; i < a.size(); ++i)
    if (is_float(a[i].dtype()))
      total += sum(astype(a[i], Dtype::kF64) * astype(b[i], Dtype::kF64)).item<double>();
  return total;
}

class Checker {
 public:
  Checker(const Function& fn, std::span<const Tensor> primals, const GradientCheckOptions& options)
      : fn_(fn), options_(options), key_(random::key(options.seed)) {
    for (const Tensor& x : primals) {
      require("check_gradients", x);
      primals_.push_back(is_float(x.dtype()) ? astype(x, Dtype::kF64) : x);
      primals_.back().eval();
    }
    result_.errors.resize(primals.size());
  }

  GradientCheck check() {
    bool is_empty = true;
    for (size_t i = 0; i < primals_.size(); ++i) {
      if (!is_float(primals_[i].dtype())) continue;
      is_empty = false;
      for (int k = 0; k < options_.directions; ++k) check(i);
    }
    if (is_empty) fail(ErrorKind::kInput, "check_gradients: no argument is a float");
    result_.passed = result_.error <= options_.tolerance;
    result_.text =
        fmt::format("gradients {}: error {:.2e}, tolerance {:.2e}",
                    result_.passed ? "agree" : "differ", result_.error, options_.tolerance);
    if (result_.argument >= 0)
      result_.text += fmt::format(", argument {}, {}", result_.argument,
                                  result_.is_jvp ? "jvp against vjp" : "vjp against differences");
    return result_;
  }

 private:
  Tensor random_like(const Tensor& x) {
    if (!is_float(x.dtype())) return zeros_like(x);
    const std::vector<Tensor> keys = split(random::split(key_, 2), 2);
    key_ = squeeze(keys[0], {0});
    return random::normal(squeeze(keys[1], {0}), x.shape(), 0, 1, x.dtype());
  }
  std::vector<Tensor> at(size_t argument, const Tensor& direction, double step) const {
    std::vector<Tensor> moved = primals_;
    moved[argument] = moved[argument] + direction * step;
    return fn_(moved);
  }
  // One direction of one argument.
  void check(size_t argument) {
    const Tensor direction = random_like(primals_[argument]);
    const std::vector<Tensor> outputs = fn_(primals_);
    std::vector<Tensor> cotangents, tangents;
    for (const Tensor& y : outputs) cotangents.push_back(random_like(y));
    for (const Tensor& x : primals_) tangents.push_back(zeros_like(x));
    tangents[argument] = direction;
    const std::vector<Tensor> gradients = vjp(fn_, primals_, cotangents).second;
    const double reverse = inner({&gradients[argument], 1}, {&direction, 1});
    const double forward = inner(jvp(fn_, primals_, tangents).second, cotangents);
    const double difference = (inner(at(argument, direction, options_.step), cotangents) -
                               inner(at(argument, direction, -options_.step), cotangents)) /
                              (2 * options_.step);
    add(argument, distance(reverse, difference), false);
    add(argument, distance(forward, reverse), true);
  }
  void add(size_t argument, double error, bool is_jvp) {
    double& most = result_.errors[argument];
    if (!(error <= most) && !std::isnan(most)) most = error;
    if (error <= result_.error || std::isnan(result_.error)) return;
    result_.error = error;
    result_.argument = static_cast<int>(argument);
    result_.is_jvp = is_jvp;
  }

  const Function& fn_;
  const GradientCheckOptions& options_;
  Tensor key_;
  std::vector<Tensor> primals_;
  GradientCheck result_;
};

}  // namespace

GradientCheck check_gradients(const Function& fn, std::span<const Tensor> primals,
                              const GradientCheckOptions& options) {
  if (!(options.step > 0) || options.directions < 1)
    fail(ErrorKind::kInput,
         "check_gradients: step {} and {} directions, expected a positive step and 1 direction or "
         "more",
         options.step, options.directions);
  return Checker(fn, primals, options).check();
}

}  // namespace veery::tensor
