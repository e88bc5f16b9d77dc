#include "tensor/transforms/pass_on.h"

namespace veery::tensor {

Tensor identity(const Tensor& x, std::span<const Tensor> after) {
  std::vector<Tensor> inputs{x};
  inputs.insert(inputs.end(), after.begin(), after.end());
  return make(Identity(), std::move(inputs), {x.shape(), x.dtype()});
}

std::vector<Tensor> leaves_of(std::span<const Tensor> primals) {
  std::vector<Tensor> leaves;
  for (const Tensor& x : primals) leaves.push_back(identity(x));
  return leaves;
}

std::vector<Tensor> Identity::batch(const Batch& in, std::span<const Spec>) const {
  std::vector<Tensor> after;
  for (size_t i = 1; i < in.count(); ++i) after.push_back(in[i]);
  return {identity(in.with_batch(0), after)};
}

Tensor stop_gradient(const Tensor& x) {
  require("stop_gradient", x);
  return make(StopGradient(), {x}, {x.shape(), x.dtype()});
}

}  // namespace veery::tensor
