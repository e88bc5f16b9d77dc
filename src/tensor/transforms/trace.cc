#include "tensor/transforms/trace.h"

#include <algorithm>

#include "tensor/transforms/pass_on.h"

namespace veery::tensor {

Trace::Trace(std::span<const Tensor> leaves, std::span<const Tensor> outputs, Of of) {
  for (const Tensor& leaf : leaves) depends_.insert(leaf.node().get());
  std::unordered_set<const Node*> seen(depends_.begin(), depends_.end());
  std::vector<std::pair<const Tensor*, size_t>> stack;
  const auto visit = [&](const Tensor& x) {
    if (of == Of::kDerivatives &&
        dynamic_cast<const StopGradient*>(x.node()->operation.get()) != nullptr)
      return;
    if (seen.insert(x.node().get()).second) stack.emplace_back(&x, 0);
  };
  for (const Tensor& output : outputs) {
    visit(output);
    while (!stack.empty()) {
      auto& [x, next] = stack.back();
      const std::vector<Tensor>& inputs = x->node()->inputs;
      if (next < inputs.size()) {
        visit(inputs[next++]);
        continue;
      }
      if (std::any_of(inputs.begin(), inputs.end(),
                      [&](const Tensor& input) { return depends(input); })) {
        depends_.insert(x->node().get());
        order_.push_back(*x);
      }
      stack.pop_back();
    }
  }
}

std::vector<Tensor> outputs_of(const Tensor& x) {
  std::vector<Tensor> outputs;
  for (size_t i = 0; i < x.node()->specs.size(); ++i)
    outputs.emplace_back(x.node(), static_cast<int>(i));
  return outputs;
}
bool has_any(std::span<const Tensor> tensors) {
  return std::any_of(tensors.begin(), tensors.end(), [](const Tensor& x) { return bool(x); });
}

std::vector<Tensor> with_zeros(std::vector<Tensor> tensors, std::span<const Tensor> like) {
  for (size_t i = 0; i < tensors.size(); ++i)
    if (!tensors[i]) tensors[i] = zeros_like(like[i]);
  return tensors;
}

void check_like(std::string_view function, std::string_view what, std::span<const Tensor> given,
                std::span<const Tensor> expected) {
  if (given.size() != expected.size())
    fail(ErrorKind::kInput, "{}: {} {}, expected {}", function, given.size(), what,
         expected.size());
  for (size_t i = 0; i < given.size(); ++i) {
    require(function, given[i]);
    if (spec(given[i]) != spec(expected[i]))
      fail(ErrorKind::kInput, "{}: {} {} is {} {}, expected {} {}", function, what, i,
           name(given[i].dtype()), text(given[i].shape()), name(expected[i].dtype()),
           text(expected[i].shape()));
  }
}

}  // namespace veery::tensor
