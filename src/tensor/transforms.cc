// Derivatives of functions of tensors.
#include <algorithm>
#include <set>
#include <unordered_set>
#include <utility>

#include "base/error.h"
#include "tensor/elementwise.h"
#include "tensor/node.h"

namespace veery::tensor {
namespace {

/// Passes its first inputs on. Derivatives pass it or not, as the subclass says.
class PassOn : public Operation {
 public:
  bool runs_on_devices() const override { return true; }
  std::vector<Data> evaluate(std::span<const Operand> in,
                             std::span<const Spec> out) const override {
    std::vector<Data> result;
    for (size_t i = 0; i < out.size(); ++i) result.push_back(*in[first_ + i].data);
    return result;
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
};
Tensor identity(const Tensor& x, std::span<const Tensor> after = {}) {
  std::vector<Tensor> inputs{x};
  inputs.insert(inputs.end(), after.begin(), after.end());
  return make(Identity(), std::move(inputs), {x.shape(), x.dtype()});
}

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
};

/// The nodes between leaves and outputs that depend on a leaf, inputs first.
class Trace {
 public:
  Trace(std::span<const Tensor> leaves, std::span<const Tensor> outputs) {
    for (const Tensor& leaf : leaves) depends_.insert(leaf.node().get());
    std::unordered_set<const Node*> seen(depends_.begin(), depends_.end());
    std::vector<std::pair<const Tensor*, size_t>> stack;
    const auto visit = [&](const Tensor& x) {
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
  bool depends(const Tensor& x) const { return depends_.contains(x.node().get()); }
  const std::vector<Tensor>& order() const { return order_; }

 private:
  std::unordered_set<const Node*> depends_;
  std::vector<Tensor> order_;  ///< one output of each node
};

std::vector<Tensor> outputs_of(const Tensor& x) {
  std::vector<Tensor> outputs;
  for (size_t i = 0; i < x.node()->specs.size(); ++i)
    outputs.emplace_back(x.node(), static_cast<int>(i));
  return outputs;
}
std::vector<Tensor> found(Derivatives& sums, std::span<const Tensor> values) {
  std::vector<Tensor> result;
  for (const Tensor& x : values) result.push_back(sums[x]);
  return result;
}
bool has_any(std::span<const Tensor> tensors) {
  return std::any_of(tensors.begin(), tensors.end(), [](const Tensor& x) { return bool(x); });
}

// Adds the products of the cotangents with the Jacobian to `sums`, one for each leaf. Empty tensors
// are zeros.
void backward(std::span<const Tensor> leaves, std::span<const Tensor> outputs,
              std::span<const Tensor> cotangents, std::vector<Tensor>& sums) {
  const Trace trace(leaves, outputs);
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

/// The outputs of a function, after its arguments. Derivatives compute the function again.
class Checkpoint : public PassOn {
 public:
  Checkpoint(Function fn, size_t arguments)
      : PassOn(arguments), fn_(std::move(fn)), arguments_(arguments) {}
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

 private:
  Function fn_;
  size_t arguments_;
};

std::vector<Tensor> with_zeros(std::vector<Tensor> tensors, std::span<const Tensor> like) {
  for (size_t i = 0; i < tensors.size(); ++i)
    if (!tensors[i]) tensors[i] = zeros_like(like[i]);
  return tensors;
}

std::vector<Tensor> forward(std::span<const Tensor> leaves, std::span<const Tensor> outputs,
                            std::span<const Tensor> tangents) {
  const Trace trace(leaves, outputs);
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

std::vector<Tensor> leaves_of(std::span<const Tensor> primals) {
  std::vector<Tensor> leaves;
  for (const Tensor& x : primals) leaves.push_back(identity(x));
  return leaves;
}

void check_like(std::string_view function, std::string_view what, std::span<const Tensor> given,
                std::span<const Tensor> expected) {
  if (given.size() != expected.size())
    fail(ErrorKind::kInput, "{}: {} {}, expected {}", function, given.size(), what,
         expected.size());
  for (size_t i = 0; i < given.size(); ++i) {
    require(function, given[i]);
    if (given[i].shape() != expected[i].shape() || given[i].dtype() != expected[i].dtype())
      fail(ErrorKind::kInput, "{}: {} {} is {} {}, expected {} {}", function, what, i,
           name(given[i].dtype()), text(given[i].shape()), name(expected[i].dtype()),
           text(expected[i].shape()));
  }
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

Tensor stop_gradient(const Tensor& x) {
  require("stop_gradient", x);
  return make(StopGradient(), {x}, {x.shape(), x.dtype()});
}

Function checkpoint(Function fn) {
  return [fn = std::move(fn)](std::span<const Tensor> arguments) {
    std::vector<Tensor> inputs(arguments.begin(), arguments.end());
    const std::vector<Tensor> outputs = fn(arguments);
    auto node = std::make_shared<Node>();
    node->operation = std::make_shared<Checkpoint>(fn, inputs.size());
    for (const Tensor& y : outputs) node->specs.push_back(spec(y));
    inputs.insert(inputs.end(), outputs.begin(), outputs.end());
    node->inputs = std::move(inputs);
    std::vector<Tensor> result;
    for (size_t i = 0; i < outputs.size(); ++i) result.emplace_back(node, static_cast<int>(i));
    return result;
  };
}

}  // namespace veery::tensor
