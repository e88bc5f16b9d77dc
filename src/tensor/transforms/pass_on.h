// pass_on.h: operations whose outputs are inputs, as marks for transforms.
#pragma once
#include <vector>

#include "tensor/node.h"

namespace veery::tensor {

/// Passes inputs on. Derivatives pass it or not, as the subclass says.
class PassOn : public Operation {
 public:
  bool runs_on_devices() const override { return true; }
  std::vector<Data> evaluate(std::span<const Operand> in,
                             std::span<const Spec> out) const override {
    std::vector<Data> result;
    for (size_t i = 0; i < out.size(); ++i) result.push_back(*in[first_ + i].data);
    return result;
  }
  bool is_same(const Operation& other) const override {
    return has_same(*this, other, &PassOn::first_);
  }

 protected:
  explicit PassOn(size_t first = 0) : first_(first) {}

 private:
  size_t first_;  ///< the inputs from this one on are the outputs
};

/// x as a node of its own, at which a transform stops. Further inputs are only waited for.
class Identity : public PassOn {
 public:
  std::string_view name() const override { return "identity"; }
  std::vector<Tensor> vjp(std::span<const Tensor> in, std::span<const Tensor>,
                          std::span<const Tensor> cotangents,
                          const std::vector<bool>&) const override {
    std::vector<Tensor> result(in.size());
    result[0] = cotangents.front();
    return result;
  }
  std::vector<Tensor> jvp(std::span<const Tensor>, std::span<const Tensor>,
                          std::span<const Tensor> tangents) const override {
    return {tangents.front()};
  }
  std::vector<Tensor> batch(const Batch& in, std::span<const Spec> out) const override;
};
Tensor identity(const Tensor& x, std::span<const Tensor> after = {});
/// One identity for each of `primals`: the leaves of a transform.
std::vector<Tensor> leaves_of(std::span<const Tensor> primals);

/// Derivatives do not pass it.
class StopGradient : public PassOn {
 public:
  std::string_view name() const override { return "stop_gradient"; }
  std::vector<Tensor> vjp(std::span<const Tensor>, std::span<const Tensor>, std::span<const Tensor>,
                          const std::vector<bool>&) const override {
    return {Tensor{}};
  }
  std::vector<Tensor> jvp(std::span<const Tensor>, std::span<const Tensor>,
                          std::span<const Tensor>) const override {
    return {Tensor{}};
  }
  std::vector<Tensor> batch(const Batch& in, std::span<const Spec>) const override {
    return {stop_gradient(in[0])};
  }
};

/// A value that a function gets while it is traced. It cannot be computed.
class Placeholder : public Operation {
 public:
  explicit Placeholder(std::string_view transform) : transform_(transform) {}
  std::string_view name() const override { return "placeholder"; }
  std::vector<Data> evaluate(std::span<const Operand>, std::span<const Spec>) const override {
    fail(
        ErrorKind::kUnsupported,
        "{}: the function reads a value that depends on its arguments, or a tensor of the function "
        "is used outside of it",
        transform_);
  }

 private:
  std::string_view transform_;
};

}  // namespace veery::tensor
