// Derivatives of functions of tensors.
#include <algorithm>
#include <set>
#include <utility>
#include <veery/tensor_transforms.hpp>

#include "base/error.h"
#include "tensor/node.h"
#include "tensor/transforms/pass_on.h"
#include "tensor/transforms/trace.h"

namespace veery::tensor {
namespace {

std::vector<Tensor> found(Derivatives& sums, std::span<const Tensor> values) {
  std::vector<Tensor> result;
  for (const Tensor& x : values) result.push_back(sums[x]);
  return result;
}
// Adds the products of the cotangents with the Jacobian to `sums`, one for each leaf. Empty tensors
// are zeros.
void backward(std::span<const Tensor> leaves, std::span<const Tensor> outputs,
              std::span<const Tensor> cotangents, std::vector<Tensor>& sums) {
  const Trace trace(leaves, outputs, Trace::Of::kDerivatives);
  Derivatives all([&](const Tensor& x) { return trace.depends(x); });
  for (size_t i = 0; i < leaves.size(); ++i) all[leaves[i]] = sums[i];
  for (size_t i = 0; i < outputs.size(); ++i)
    if (cotangents[i] && trace.depends(outputs[i])) all.add(outputs[i], cotangents[i]);
  for (size_t i = trace.order().size(); i-- > 0;) {
    const Tensor& x = trace.order()[i];
    const std::vector<Tensor> out = outputs_of(x);
    const std::vector<Tensor> given = found(all, out);
    if (!has_any(given)) continue;
    const std::vector<Tensor>& in = x.node()->inputs;
    std::vector<bool> wanted(in.size());
    for (size_t k = 0; k < in.size(); ++k) wanted[k] = trace.depends(in[k]);
    x.node()->operation->add_vjp(in, out, given, wanted, all);
  }
  sums = found(all, leaves);
}

// The tensors that `outputs` use besides `leaves` and that have derivatives: those that the
// function captured.
std::vector<Tensor> captured(std::span<const Tensor> outputs, std::span<const Tensor> leaves,
                             const Derivatives& derivatives) {
  std::vector<Tensor> found, pending(outputs.begin(), outputs.end());
  std::set<std::pair<const Node*, int>> seen;
  for (const Tensor& leaf : leaves) seen.insert({leaf.node().get(), leaf.output()});
  while (!pending.empty()) {
    const Tensor x = std::move(pending.back());
    pending.pop_back();
    if (!seen.insert({x.node().get(), x.output()}).second) continue;
    if (derivatives.depends(x))
      found.push_back(x);
    else
      pending.insert(pending.end(), x.node()->inputs.begin(), x.node()->inputs.end());
  }
  return found;
}

/// The outputs of a function, after its arguments and after the leaves that it got for them, which
/// tell arguments from captured tensors. Derivatives compute the function again.
class Checkpoint : public PassOn {
 public:
  Checkpoint(Function fn, size_t arguments)
      : PassOn(2 * arguments), fn_(std::move(fn)), arguments_(arguments) {}
  std::string_view name() const override { return "checkpoint"; }
  // Adds to the sums node by node, as without the checkpoint, so that gradients have the same bits.
  void add_vjp(std::span<const Tensor> in, std::span<const Tensor> out,
               std::span<const Tensor> cotangents, const std::vector<bool>& wanted,
               Derivatives& sums) const override {
    // Without waiting, the function could be computed again long before the cotangents are there.
    std::vector<Tensor> waited;
    for (const Tensor& t : cotangents)
      if (t) waited.push_back(t);
    std::vector<Tensor> arguments, leaves, sources;
    for (size_t i = 0; i < arguments_; ++i) {
      arguments.push_back(identity(in[i], waited));
      if (!wanted[i]) continue;
      leaves.push_back(arguments.back());
      sources.push_back(in[i]);
    }
    const KeepInputs keep;
    const std::vector<Tensor> outputs = fn_(arguments);
    VEERY_CHECK(outputs.size() == out.size());
    for (const Tensor& x : captured(outputs, leaves, sums)) {
      leaves.push_back(x);
      sources.push_back(x);
    }
    std::vector<Tensor> own;
    for (const Tensor& source : sources) own.push_back(std::exchange(sums[source], {}));
    backward(leaves, outputs, cotangents, own);
    for (size_t i = 0; i < sources.size(); ++i)
      if (own[i]) sums.add(sources[i], own[i]);
  }
  std::vector<Tensor> jvp(std::span<const Tensor> in, std::span<const Tensor>,
                          std::span<const Tensor> tangents) const override {
    std::vector<Tensor> given;
    for (size_t i = 0; i < arguments_; ++i)
      given.push_back(tangents[i] ? tangents[i] : zeros_like(in[i]));
    return tensor::jvp(fn_, in.first(arguments_), given).second;
  }
  std::vector<Tensor> batch(const Batch& in, std::span<const Spec> out) const override {
    std::vector<Tensor> inputs;
    std::vector<std::optional<int>> axes;
    for (size_t i = 0; i < arguments_; ++i) {
      inputs.push_back(in[i]);
      axes.push_back(in.is_mapped(i) ? std::optional(0) : std::nullopt);
    }
    std::vector<Tensor> outputs;
    std::vector<Spec> specs;
    for (size_t i = 0; i < out.size(); ++i) {
      outputs.push_back(in.with_batch(2 * arguments_ + i));
      specs.push_back(spec(outputs.back()));
    }
    if (captures_sample(in)) return outputs;  // the function has no batch of what it captured
    for (size_t i = 0; i < arguments_; ++i) inputs.push_back(in[arguments_ + i]);
    inputs.insert(inputs.end(), outputs.begin(), outputs.end());
    return make_all(std::make_shared<Checkpoint>(vmap(fn_, axes), arguments_), std::move(inputs),
                    std::move(specs));
  }

 private:
  // Whether the outputs depend on the sample other than by the arguments.
  bool captures_sample(const Batch& in) const {
    std::set<const Node*> seen;
    for (const Tensor& x : in.traced().subspan(arguments_, arguments_)) seen.insert(x.node().get());
    const auto outputs = in.traced().subspan(2 * arguments_);
    std::vector<Tensor> pending(outputs.begin(), outputs.end());
    while (!pending.empty()) {
      const Tensor x = std::move(pending.back());
      pending.pop_back();
      if (!in.depends_on_sample(x) || !seen.insert(x.node().get()).second) continue;
      if (x.node()->inputs.empty()) return true;
      pending.insert(pending.end(), x.node()->inputs.begin(), x.node()->inputs.end());
    }
    return false;
  }
  Function fn_;
  size_t arguments_;
};

std::vector<Tensor> forward(std::span<const Tensor> leaves, std::span<const Tensor> outputs,
                            std::span<const Tensor> tangents) {
  const Trace trace(leaves, outputs, Trace::Of::kDerivatives);
  Derivatives all([&](const Tensor& x) { return trace.depends(x); });
  for (size_t i = 0; i < leaves.size(); ++i)
    if (is_float(leaves[i].dtype())) all[leaves[i]] = tangents[i];
  for (const Tensor& x : trace.order()) {
    const std::vector<Tensor>& in = x.node()->inputs;
    const std::vector<Tensor> given = found(all, in);
    if (!has_any(given)) continue;
    const std::vector<Tensor> out = outputs_of(x);
    const std::vector<Tensor> made = x.node()->operation->jvp(in, out, given);
    for (size_t k = 0; k < made.size(); ++k) all[out[k]] = made[k];
  }
  return with_zeros(found(all, outputs), outputs);
}

}  // namespace

std::pair<std::vector<Tensor>, std::vector<Tensor>> vjp(const Function& fn,
                                                        std::span<const Tensor> primals,
                                                        std::span<const Tensor> cotangents) {
  for (const Tensor& x : primals) require("vjp", x);
  const KeepInputs keep;
  const std::vector<Tensor> leaves = leaves_of(primals);
  std::vector<Tensor> outputs = fn(leaves);
  check_like("vjp", "cotangents", cotangents, outputs);
  std::vector<Tensor> gradients(leaves.size());
  backward(leaves, outputs, cotangents, gradients);
  return {std::move(outputs), with_zeros(std::move(gradients), leaves)};
}

std::pair<std::vector<Tensor>, std::vector<Tensor>> jvp(const Function& fn,
                                                        std::span<const Tensor> primals,
                                                        std::span<const Tensor> tangents) {
  for (const Tensor& x : primals) require("jvp", x);
  check_like("jvp", "tangents", tangents, primals);
  const KeepInputs keep;
  const std::vector<Tensor> leaves = leaves_of(primals);
  std::vector<Tensor> outputs = fn(leaves);
  std::vector<Tensor> result = forward(leaves, outputs, tangents);
  return {std::move(outputs), std::move(result)};
}

std::function<ValueAndGrad(std::span<const Tensor>)> value_and_grad(ScalarFunction fn,
                                                                    std::vector<int> argnums) {
  if (std::set<int>(argnums.begin(), argnums.end()).size() != argnums.size())
    fail(ErrorKind::kInput, "value_and_grad: an argument occurs twice");
  return [fn = std::move(fn), argnums = std::move(argnums)](std::span<const Tensor> arguments) {
    std::vector<Tensor> chosen;
    for (const int index : argnums) {
      if (index < 0 || static_cast<size_t>(index) >= arguments.size())
        fail(ErrorKind::kInput, "value_and_grad: argument {} of {}", index, arguments.size());
      const Tensor& x = arguments[static_cast<size_t>(index)];
      require("value_and_grad", x);
      if (!is_float(x.dtype()))
        fail(ErrorKind::kInput, "value_and_grad: argument {} is {}, expected floats", index,
             name(x.dtype()));
      chosen.push_back(x);
    }
    const KeepInputs keep;
    const std::vector<Tensor> leaves = leaves_of(chosen);
    std::vector<Tensor> all(arguments.begin(), arguments.end());
    for (size_t i = 0; i < argnums.size(); ++i) all[static_cast<size_t>(argnums[i])] = leaves[i];
    const Tensor value = fn(all);
    require("value_and_grad", value);
    if (value.size() != 1)
      fail(ErrorKind::kInput, "value_and_grad: the function returns shape {}, expected one element",
           text(value.shape()));
    const Tensor one = ones_like(value);
    std::vector<Tensor> gradients(leaves.size());
    backward(leaves, {&value, 1}, {&one, 1}, gradients);
    return ValueAndGrad{value, with_zeros(std::move(gradients), leaves)};
  };
}

std::function<std::vector<Tensor>(std::span<const Tensor>)> grad(ScalarFunction fn,
                                                                 std::vector<int> argnums) {
  return [both = value_and_grad(std::move(fn), std::move(argnums))](
             std::span<const Tensor> arguments) { return both(arguments).gradients; };
}

Function checkpoint(Function fn) {
  return [fn = std::move(fn)](std::span<const Tensor> arguments) {
    for (const Tensor& x : arguments) require("checkpoint", x);
    const std::vector<Tensor> leaves = leaves_of(arguments);
    const std::vector<Tensor> outputs = fn(leaves);
    std::vector<Tensor> inputs(arguments.begin(), arguments.end());
    inputs.insert(inputs.end(), leaves.begin(), leaves.end());
    std::vector<Spec> specs;
    for (const Tensor& y : outputs) specs.push_back(spec(y));
    auto operation = std::make_shared<Checkpoint>(fn, arguments.size());
    inputs.insert(inputs.end(), outputs.begin(), outputs.end());
    return make_all(std::move(operation), std::move(inputs), std::move(specs));
  };
}

}  // namespace veery::tensor
