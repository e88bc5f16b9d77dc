// RMS norm and layer norm over the last axis.
#include "kernels/cpu/tensor/fast/norm.h"

#include <cmath>
#include <veery/tensor_fast.hpp>

#include "tensor/fast/fused.h"
#include "tensor/runtime.h"

namespace veery::tensor::fast {
namespace {

struct NormKind {
  bool centred = false, has_weight = false, has_bias = false;
  double eps = 0;

  std::string_view name() const { return centred ? "layer_norm" : "rms_norm"; }
  size_t bias_at() const { return has_weight ? 2 : 1; }
  bool operator==(const NormKind&) const = default;
};

// The norm of inputs x, weight and bias.
Function norm_function(const NormKind& kind) {
  return [kind](std::span<const Tensor> in) {
    const Dtype type = in[0].dtype(), wide = wide_type(type);
    const Tensor x = astype(in[0], wide);
    const Tensor values = kind.centred ? x - mean(x, {-1}, true) : x;
    Tensor y = values * rsqrt(mean(square(values), {-1}, true) + kind.eps);
    if (kind.has_weight) y = y * astype(in[1], wide);
    if (kind.has_bias) y = y + astype(in[kind.bias_at()], wide);
    return std::vector<Tensor>{astype(y, type)};
  };
}

NormProblem problem_of(const NormKind& kind, std::span<const Operand> in) {
  NormProblem problem{.rows = rows_of(in[0].spec->shape),
                      .centred = kind.centred,
                      .eps = kind.eps,
                      .x = strided(in[0])};
  if (kind.has_weight) problem.weight = strided(in[1]);
  if (kind.has_bias) problem.bias = strided(in[kind.bias_at()]);
  return problem;
}

class NormGradient : public FusedGradient {
 public:
  NormGradient(const NormKind& kind, std::vector<bool> wanted)
      : FusedGradient(norm_function(kind), std::move(wanted)), kind_(kind) {}
  std::string_view name() const override { return kind_.name(); }
  std::vector<Data> evaluate(std::span<const Operand> in,
                             std::span<const Spec> out) const override {
    std::vector<Data> made;
    for (const Spec& spec : out) made.push_back(new_data(spec));
    NormGradients gradients{.cotangent = strided(in[arguments()])};
    size_t next = 0;
    for (size_t i = 0; i < arguments(); ++i) {
      if (!wants(i)) continue;
      std::byte*& to = i == 0                                   ? gradients.x
                       : kind_.has_bias && i == kind_.bias_at() ? gradients.bias
                                                                : gradients.weight;
      to = made[next++].buffer->data();
    }
    Runtime& runtime = Runtime::get();
    norm_gradients(problem_of(kind_, in), gradients, runtime.target(), runtime.pool());
    return made;
  }
  bool is_same(const Operation& other) const override {
    return has_same_kind(*this, other, &NormGradient::kind_);
  }
  std::vector<Tensor> batch(const Batch& in, std::span<const Spec> out) const override {
    const auto self = std::make_shared<NormGradient>(*this);
    for (size_t i = 1; i < arguments(); ++i)
      if (wants(i) || in.is_mapped(i)) return make_for_each(self, in, out);
    std::vector<Tensor> inputs{in.with_batch(0)};
    for (size_t i = 1; i < arguments(); ++i) inputs.push_back(in[i]);
    inputs.push_back(in.with_batch(arguments()));
    std::vector<Spec> specs{spec(inputs.front())};
    return make_all(self, std::move(inputs), std::move(specs));
  }

 private:
  NormKind kind_;
};

/// Inputs: x, and weight and bias if there are.
class Norm : public Fused {
 public:
  explicit Norm(const NormKind& kind) : Fused(norm_function(kind)), kind_(kind) {}
  std::string_view name() const override { return kind_.name(); }
  std::vector<Data> evaluate(std::span<const Operand> in,
                             std::span<const Spec> out) const override {
    Data data = new_data(out.front());
    Runtime& runtime = Runtime::get();
    norm(problem_of(kind_, in), data.buffer->data(), runtime.target(), runtime.pool());
    return {std::move(data)};
  }
  bool is_same(const Operation& other) const override {
    return has_same(*this, other, &Norm::kind_);
  }
  std::vector<Tensor> batch(const Batch& in, std::span<const Spec> out) const override;
  std::vector<Tensor> vjp(std::span<const Tensor> in, std::span<const Tensor>,
                          std::span<const Tensor> cotangents,
                          const std::vector<bool>& wanted) const override {
    return make_gradients(std::make_shared<NormGradient>(kind_, wanted), in, {cotangents.front()},
                          wanted);
  }

 private:
  NormKind kind_;
};

// Weights and biases of samples are applied to the wide norm as the kernel does, and so have its
// bits.
std::vector<Tensor> Norm::batch(const Batch& in, std::span<const Spec> out) const {
  const Dtype type = in[0].dtype(), wide = wide_type(type);
  bool has_rows = false;  // of samples
  for (size_t i = 1; i < in.count(); ++i) has_rows = has_rows || in.is_mapped(i);
  if (!has_rows) {
    std::vector<Tensor> inputs{in[0]};
    for (size_t i = 1; i < in.count(); ++i) inputs.push_back(in[i]);
    return {make(Norm(kind_), std::move(inputs), {in[0].shape(), type})};
  }
  const NormKind without{.centred = kind_.centred, .eps = kind_.eps};
  const Tensor x = astype(in[0], wide);
  Tensor y = make(Norm(without), {x}, {x.shape(), wide});
  for (size_t i = 1; i < in.count(); ++i) {
    Tensor row = astype(in[i], wide);
    if (in.is_mapped(i)) {
      Shape shape(out.front().shape.size() + 1, 1);
      shape.front() = in.size();
      shape.back() = row.dim(-1);
      row = reshape(row, shape);
    }
    y = kind_.has_bias && i == kind_.bias_at() ? y + row : y * row;
  }
  return {astype(y, type)};
}

Tensor make_norm(bool centred, const Tensor& x, const std::optional<Tensor>& weight,
                 const std::optional<Tensor>& bias, double eps) {
  const NormKind kind{centred, weight.has_value(), bias.has_value(), eps};
  const std::string_view function = kind.name();
  require_floats(function, "x", x);
  if (x.rank() == 0)
    fail(ErrorKind::kInput, "{}: x has no dimensions, expected 1 or more", function);
  if (!std::isfinite(eps) || eps < 0)
    fail(ErrorKind::kInput, "{}: eps is {}, expected 0 or more", function, eps);
  Dtype type = x.dtype();
  const auto check = [&](std::string_view argument, const std::optional<Tensor>& row) {
    if (!row) return;
    require_floats(function, argument, *row);
    if (row->shape() != Shape{x.dim(-1)})
      fail(ErrorKind::kInput, "{}: {} has the shape {}, expected [{}]", function, argument,
           text(row->shape()), x.dim(-1));
    type = promote(type, row->dtype());
  };
  check("weight", weight);
  check("bias", bias);
  std::vector<Tensor> inputs{astype(x, type)};
  if (weight) inputs.push_back(astype(*weight, type));
  if (bias) inputs.push_back(astype(*bias, type));
  return make(Norm(kind), std::move(inputs), {x.shape(), type});
}

}  // namespace

Tensor rms_norm(const Tensor& x, const std::optional<Tensor>& weight, double eps) {
  return make_norm(false, x, weight, {}, eps);
}
Tensor layer_norm(const Tensor& x, const std::optional<Tensor>& weight,
                  const std::optional<Tensor>& bias, double eps) {
  return make_norm(true, x, weight, bias, eps);
}

}  // namespace veery::tensor::fast
