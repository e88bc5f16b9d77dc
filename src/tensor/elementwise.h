// elementwise.h: element-wise operations.
#pragma once
#include "kernels/tensor/element_program.h"
#include "tensor/node.h"

namespace veery::tensor {

/// Applies an ElementOp to inputs of the shape of the output. All have the type that the op wants:
/// the API functions cast and broadcast.
class Elementwise : public Operation {
 public:
  explicit Elementwise(ElementOp op) : op_(op) {}
  std::string_view name() const override { return veery::name(op_); }
  bool runs_on_devices() const override { return true; }
  std::vector<Data> evaluate(std::span<const Operand> in, std::span<const Spec> out) const override;
  std::vector<Tensor> vjp(std::span<const Tensor> in, std::span<const Tensor> out,
                          std::span<const Tensor> cotangents,
                          const std::vector<bool>& wanted) const override;
  std::vector<Tensor> jvp(std::span<const Tensor> in, std::span<const Tensor> out,
                          std::span<const Tensor> tangents) const override;
  std::vector<Tensor> batch(const Batch& in, std::span<const Spec> out) const override;
  bool is_same(const Operation& other) const override {
    return has_same(*this, other, &Elementwise::op_);
  }
  ElementOp op() const { return op_; }

 private:
  ElementOp op_;
};

/// A number without dimensions; programs hold it in a register.
class Constant : public Operation {
 public:
  explicit Constant(Scalar value) : value_(value) {}
  std::string_view name() const override { return "constant"; }
  bool runs_on_devices() const override { return true; }
  std::vector<Data> evaluate(std::span<const Operand> in, std::span<const Spec> out) const override;
  std::vector<Tensor> vjp(std::span<const Tensor>, std::span<const Tensor>, std::span<const Tensor>,
                          const std::vector<bool>&) const override {
    return {};
  }
  std::vector<Tensor> jvp(std::span<const Tensor>, std::span<const Tensor>,
                          std::span<const Tensor>) const override {
    return {Tensor{}};
  }
  bool is_same(const Operation& other) const override {
    const auto* same = dynamic_cast<const Constant*>(&other);
    return same != nullptr && same->value_.kind() == value_.kind() &&
           same->value_.integer() == value_.integer() && same->value_.real() == value_.real();
  }
  const Scalar& value() const { return value_; }

 private:
  Scalar value_;
};
/// Throws kInput, naming the function, if a type of integers lacks the number.
Tensor constant(std::string_view function, Scalar value, Dtype type);
/// Throws kInput if the type of integers lacks the number.
void require_fit(std::string_view function, int64_t value, Dtype type);

/// An element-wise node of inputs that are broadcast; no types are changed.
Tensor elementwise(ElementOp op, std::vector<Tensor> inputs, Dtype result);

/// x as f64 if it is that, else as f32: for functions that are chains of others, whose intermediate
/// results must not be rounded to f16 or bf16, nor wrap around as integers.
Tensor as_wide_float(const Tensor& x);
/// The type of their results.
Dtype float_type(const Tensor& x);

/// t times the derivative of the op with respect to input `index`, as an element-wise expression;
/// empty if that is zero. `to`: the type of the result.
Tensor times_derivative(ElementOp op, size_t index, std::span<const Tensor> in, const Tensor& out,
                        const Tensor& t, Dtype to);

}  // namespace veery::tensor
