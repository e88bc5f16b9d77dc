// trace.h: the part of a graph that depends on the arguments of a function.
#pragma once
#include <span>
#include <string_view>
#include <unordered_set>
#include <vector>

#include "tensor/node.h"

namespace veery::tensor {

/// The nodes between leaves and outputs that depend on a leaf, inputs first.
class Trace {
 public:
  enum class Of : uint8_t { kValues, kDerivatives };  ///< derivatives do not pass stop_gradient()
  Trace(std::span<const Tensor> leaves, std::span<const Tensor> outputs, Of of);
  bool depends(const Tensor& x) const { return depends_.contains(x.node().get()); }
  const std::vector<Tensor>& order() const { return order_; }

 private:
  std::unordered_set<const Node*> depends_;
  std::vector<Tensor> order_;  ///< one output of each node
};

std::vector<Tensor> outputs_of(const Tensor& x);
bool has_any(std::span<const Tensor> tensors);

/// `tensors` with zeros in place of empty ones.
std::vector<Tensor> with_zeros(std::vector<Tensor> tensors, std::span<const Tensor> like);
/// Throws kInput unless `given` have the shapes and types of `expected`.
void check_like(std::string_view function, std::string_view what, std::span<const Tensor> given,
                std::span<const Tensor> expected);

}  // namespace veery::tensor
