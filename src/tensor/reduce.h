// reduce.h: reductions over axes.
#pragma once
#include <vector>

#include "kernels/tensor/element_program.h"
#include "tensor/node.h"

namespace veery::tensor {

/// Reduces `axes`, ascending, which the output lacks.
class Reduce : public Operation {
 public:
  Reduce(ReduceOp op, std::vector<int> axes) : op_(op), axes_(std::move(axes)) {}
  std::string_view name() const override;
  bool runs_on_devices() const override { return true; }
  std::vector<Data> evaluate(std::span<const Operand> in, std::span<const Spec> out) const override;
  std::vector<Tensor> vjp(std::span<const Tensor> in, std::span<const Tensor> out,
                          std::span<const Tensor> cotangents,
                          const std::vector<bool>& wanted) const override;
  std::vector<Tensor> jvp(std::span<const Tensor> in, std::span<const Tensor> out,
                          std::span<const Tensor> tangents) const override;
  std::vector<Tensor> batch(const Batch& in, std::span<const Spec> out) const override;
  bool is_same(const Operation& other) const override {
    return has_same(*this, other, &Reduce::op_, &Reduce::axes_);
  }
  ReduceOp op() const { return op_; }
  const std::vector<int>& axes() const { return axes_; }

 private:
  Tensor weights(const Tensor& x, const Tensor& y) const;
  Tensor products_of_others(const Tensor& x) const;
  Tensor spread(const Tensor& y, const Tensor& x) const;

  ReduceOp op_;
  std::vector<int> axes_;
};

}  // namespace veery::tensor
