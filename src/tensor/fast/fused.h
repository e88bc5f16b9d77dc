// fused.h: operations with a kernel for their gradient. Their other derivatives are those of the
// same function composed of functions of tensor.hpp.
#pragma once
#include <memory>
#include <vector>

#include "kernels/tensor/tensor_rows.h"
#include "tensor/node.h"

namespace veery::tensor::fast {

/// An operation whose first output equals a composed function of its inputs. Further outputs are
/// for its gradient and have no cotangents.
class Fused : public Operation {
 public:
  std::vector<Tensor> jvp(std::span<const Tensor> in, std::span<const Tensor> out,
                          std::span<const Tensor> tangents) const override;

 protected:
  /// The function, with one output of the type of the operation's.
  explicit Fused(Function composed) : composed_(std::move(composed)) {}

 private:
  Function composed_;
};

/// The gradients of a Fused operation. Inputs: its inputs, the cotangent of its first output, and
/// perhaps results of the forward pass, which are functions of the inputs before and so have no
/// derivatives of their own. Outputs: the gradients of the wanted inputs, of their shapes and
/// types.
class FusedGradient : public Operation {
 public:
  std::vector<Tensor> vjp(std::span<const Tensor> in, std::span<const Tensor> out,
                          std::span<const Tensor> cotangents,
                          const std::vector<bool>& wanted) const override;
  std::vector<Tensor> jvp(std::span<const Tensor> in, std::span<const Tensor> out,
                          std::span<const Tensor> tangents) const override;

 protected:
  FusedGradient(Function composed, std::vector<bool> wanted)
      : composed_(std::move(composed)), wanted_(std::move(wanted)) {}
  bool wants(size_t input) const { return wanted_[input]; }
  size_t arguments() const { return wanted_.size(); }  ///< inputs of the Fused operation
  /// is_same() of a subclass that is determined by its `kind`.
  template <typename Op, typename Kind>
  static bool has_same_kind(const Op& op, const Operation& other, Kind Op::*kind) {
    const auto* same = dynamic_cast<const Op*>(&other);
    return same != nullptr && op.*kind == same->*kind && op.wanted_ == same->wanted_;
  }

 private:
  Function gradients() const;

  Function composed_;
  std::vector<bool> wanted_;
};

/// Adds the node of a FusedGradient. Returns one tensor for each of `primals`, empty for those that
/// are not wanted. `others`: the inputs after `primals`.
std::vector<Tensor> make_gradients(std::shared_ptr<const FusedGradient> operation,
                                   std::span<const Tensor> primals, std::vector<Tensor> others,
                                   const std::vector<bool>& wanted);

/// Integers have no derivative.
std::vector<bool> only_floats(std::vector<bool> wanted, std::span<const Tensor> in);

/// The type in which elements of a float type are computed.
constexpr Dtype wide_type(Dtype type) { return type == Dtype::kF64 ? Dtype::kF64 : Dtype::kF32; }

/// The elements of an operand for kernels.
StridedElements strided(const Operand& x);
TensorRows rows_of(const Shape& shape);

/// Throws kInput, naming the function and the argument, if x is no tensor of floats.
void require_floats(std::string_view function, std::string_view argument, const Tensor& x);

}  // namespace veery::tensor::fast
