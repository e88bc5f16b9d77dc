// Functions with derivatives of their own.
#include <utility>
#include <veery/tensor_transforms.hpp>

#include "tensor/transforms/pass_on.h"
#include "tensor/transforms/trace.h"

namespace veery::tensor {
namespace {

/// The outputs of a function, after its arguments. The function got its arguments by
/// stop_gradient(), so that derivatives by the outputs are those of captured tensors.
class Custom : public PassOn {
 public:
  /// One of the rules is there.
  Custom(VjpFunction vjp, JvpFunction jvp, size_t arguments)
      : PassOn(arguments), vjp_(std::move(vjp)), jvp_(std::move(jvp)), arguments_(arguments) {}
  std::string_view name() const override { return vjp_ ? "custom_vjp" : "custom_jvp"; }

  std::vector<Tensor> vjp(std::span<const Tensor> in, std::span<const Tensor> out,
                          std::span<const Tensor> cotangents,
                          const std::vector<bool>& wanted) const override {
    std::vector<Tensor> result(in.size());
    for (size_t i = 0; i < out.size(); ++i) result[arguments_ + i] = cotangents[i];
    bool any = false;
    for (size_t i = 0; i < arguments_; ++i) any = any || (wanted[i] && is_float(in[i].dtype()));
    if (!any) return result;
    const std::vector<Tensor> given = with_zeros({cotangents.begin(), cotangents.end()}, out);
    const std::span<const Tensor> primals = in.first(arguments_);
    const std::vector<Tensor> made =
        vjp_ ? by_vjp(primals, out, given)
             : tensor::vjp([&](std::span<const Tensor> t) { return by_jvp(primals, out, t); },
                           with_zeros(std::vector<Tensor>(arguments_), primals), given)
                   .second;
    for (size_t i = 0; i < arguments_; ++i)
      if (is_float(in[i].dtype())) result[i] = made[i];
    return result;
  }

  std::vector<Tensor> jvp(std::span<const Tensor> in, std::span<const Tensor> out,
                          std::span<const Tensor> tangents) const override {
    const auto of_captured = tangents.subspan(arguments_);
    std::vector<Tensor> result(of_captured.begin(), of_captured.end());
    if (!has_any(tangents.first(arguments_))) return result;
    const std::span<const Tensor> primals = in.first(arguments_);
    const std::vector<Tensor> given = with_zeros(
        {tangents.begin(), tangents.begin() + static_cast<ptrdiff_t>(arguments_)}, primals);
    const std::vector<Tensor> made =
        jvp_ ? by_jvp(primals, out, given) : transposed(in, out, given);
    for (size_t i = 0; i < out.size(); ++i)
      if (is_float(out[i].dtype())) result[i] = result[i] ? result[i] + made[i] : made[i];
    return result;
  }

  std::vector<Tensor> batch(const Batch& in, std::span<const Spec> out) const override;

 private:
  std::vector<Tensor> by_vjp(std::span<const Tensor> primals, std::span<const Tensor> out,
                             std::span<const Tensor> cotangents) const {
    std::vector<Tensor> made = vjp_(primals, out, cotangents);
    if (made.size() != primals.size())
      fail(ErrorKind::kInput, "custom_vjp: the rule returns {} tensors for {} arguments",
           made.size(), primals.size());
    for (size_t i = 0; i < made.size(); ++i)
      if (!made[i] || !is_float(primals[i].dtype())) made[i] = zeros_like(primals[i]);
    check_like("custom_vjp", "cotangents of the rule", made, primals);
    return made;
  }
  std::vector<Tensor> by_jvp(std::span<const Tensor> primals, std::span<const Tensor> out,
                             std::span<const Tensor> tangents) const {
    std::vector<Tensor> made = jvp_(primals, out, tangents);
    if (made.size() != out.size())
      fail(ErrorKind::kInput, "custom_jvp: the rule returns {} tensors for {} outputs", made.size(),
           out.size());
    for (size_t i = 0; i < made.size(); ++i)
      if (!made[i] || !is_float(out[i].dtype())) made[i] = zeros_like(out[i]);
    check_like("custom_jvp", "tangents of the rule", made, out);
    return made;
  }
  // The rule is linear in its cotangents: its transpose gives tangents.
  std::vector<Tensor> transposed(std::span<const Tensor> in, std::span<const Tensor> out,
                                 std::span<const Tensor> tangents) const {
    const Function rule = [&](std::span<const Tensor> t) {
      return by_vjp(in.first(arguments_), out, t);
    };
    return tensor::vjp(rule, with_zeros(std::vector<Tensor>(out.size()), out), tangents).second;
  }

  VjpFunction vjp_;
  JvpFunction jvp_;
  size_t arguments_;
};

std::vector<Tensor> joined(std::span<const Tensor> a, std::span<const Tensor> b,
                           std::span<const Tensor> c) {
  std::vector<Tensor> result(a.begin(), a.end());
  result.insert(result.end(), b.begin(), b.end());
  result.insert(result.end(), c.begin(), c.end());
  return result;
}

// A rule on batches. `axes`: of the primals; outputs have a batch. Cotangents of arguments without
// a batch are summed.
using Rule = VjpFunction;
Rule mapped(const Rule& rule, const MapAxes& axes, bool is_vjp) {
  return [rule, axes, is_vjp](std::span<const Tensor> primals, std::span<const Tensor> outputs,
                              std::span<const Tensor> given) {
    MapAxes all = axes;
    all.insert(all.end(), outputs.size(), 0);
    if (is_vjp)
      all.insert(all.end(), given.size(), 0);
    else
      all.insert(all.end(), axes.begin(), axes.end());
    const Function flat = [&, n = primals.size(), m = outputs.size()](std::span<const Tensor> in) {
      std::vector<Tensor> made = rule(in.first(n), in.subspan(n, m), in.subspan(n + m));
      for (size_t i = 0; i < made.size(); ++i)
        if (!made[i] && i < (is_vjp ? n : m)) made[i] = zeros_like(in[is_vjp ? i : n + i]);
      return made;
    };
    std::vector<Tensor> result = vmap(flat, all)(joined(primals, outputs, given));
    for (size_t i = 0; is_vjp && i < std::min(result.size(), axes.size()); ++i)
      if (!axes[i]) result[i] = astype(sum(result[i], {0}), primals[i].dtype());
    return result;
  };
}

std::vector<Tensor> Custom::batch(const Batch& in, std::span<const Spec> out) const {
  std::vector<Tensor> inputs;
  std::vector<Spec> specs;
  MapAxes axes;
  for (size_t i = 0; i < in.count(); ++i) {
    if (i < arguments_) {
      axes.push_back(in.is_mapped(i) ? std::optional(0) : std::nullopt);
      inputs.push_back(in[i]);
    } else {
      inputs.push_back(in.with_batch(i));
      specs.push_back(
          {with_first(in.size(), out[i - arguments_].shape), out[i - arguments_].dtype});
    }
  }
  return make_all(
      std::make_shared<Custom>(vjp_ ? mapped(vjp_, axes, true) : VjpFunction{},
                               jvp_ ? mapped(jvp_, axes, false) : JvpFunction{}, arguments_),
      std::move(inputs), std::move(specs));
}

Function custom(std::string_view function, Function fn, VjpFunction vjp, JvpFunction jvp) {
  return [=, fn = std::move(fn)](std::span<const Tensor> arguments) {
    std::vector<Tensor> inputs, stopped;
    for (const Tensor& x : arguments) {
      require(function, x);
      inputs.push_back(x);
      stopped.push_back(stop_gradient(x));
    }
    const std::vector<Tensor> outputs = fn(stopped);
    std::vector<Spec> specs;
    for (const Tensor& y : outputs) {
      require(function, y);
      inputs.push_back(y);
      specs.push_back(spec(y));
    }
    return make_all(std::make_shared<Custom>(vjp, jvp, arguments.size()), std::move(inputs),
                    std::move(specs));
  };
}

}  // namespace

Function custom_vjp(Function fn, VjpFunction rule) {
  return custom("custom_vjp", std::move(fn), std::move(rule), {});
}
Function custom_jvp(Function fn, JvpFunction rule) {
  return custom("custom_jvp", std::move(fn), {}, std::move(rule));
}

}  // namespace veery::tensor
