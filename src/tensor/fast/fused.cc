#include "tensor/fast/fused.h"

#include <algorithm>

namespace veery::tensor::fast {
namespace {

std::vector<Tensor> with_zeros(std::span<const Tensor> given, std::span<const Tensor> like) {
  std::vector<Tensor> result;
  for (size_t i = 0; i < like.size(); ++i)
    result.push_back(given[i] ? given[i] : zeros_like(like[i]));
  return result;
}

}  // namespace

std::vector<Tensor> Fused::jvp(std::span<const Tensor> in, std::span<const Tensor> out,
                               std::span<const Tensor> tangents) const {
  std::vector<Tensor> result = tensor::jvp(composed_, in, with_zeros(tangents, in)).second;
  result.resize(out.size());
  return result;
}

// The gradients as a function of the arguments and the cotangent.
Function FusedGradient::gradients() const {
  return [composed = composed_, wanted = wanted_](std::span<const Tensor> in) {
    const std::vector<Tensor> all =
        tensor::vjp(composed, in.first(wanted.size()), in.subspan(wanted.size())).second;
    std::vector<Tensor> chosen;
    for (size_t i = 0; i < wanted.size(); ++i)
      if (wanted[i]) chosen.push_back(all[i]);
    return chosen;
  };
}

std::vector<Tensor> FusedGradient::vjp(std::span<const Tensor> in, std::span<const Tensor> out,
                                       std::span<const Tensor> cotangents,
                                       const std::vector<bool>&) const {
  const auto variables = in.first(arguments() + 1);
  std::vector<Tensor> result =
      tensor::vjp(gradients(), variables, with_zeros(cotangents, out)).second;
  for (Tensor& x : result)
    if (!is_float(x.dtype())) x = {};
  result.resize(in.size());
  return result;
}

std::vector<Tensor> FusedGradient::jvp(std::span<const Tensor> in, std::span<const Tensor>,
                                       std::span<const Tensor> tangents) const {
  const auto variables = in.first(arguments() + 1);
  return tensor::jvp(gradients(), variables, with_zeros(tangents, variables)).second;
}

std::vector<Tensor> make_gradients(std::shared_ptr<const FusedGradient> operation,
                                   std::span<const Tensor> primals, std::vector<Tensor> others,
                                   const std::vector<bool>& wanted) {
  std::vector<Tensor> inputs(primals.begin(), primals.end());
  inputs.insert(inputs.end(), others.begin(), others.end());
  std::vector<Spec> specs;
  for (size_t i = 0; i < primals.size(); ++i)
    if (wanted[i]) specs.push_back(spec(primals[i]));
  std::vector<Tensor> result(primals.size());
  if (specs.empty()) return result;
  const std::vector<Tensor> made =
      make_all(std::move(operation), std::move(inputs), std::move(specs));
  size_t next = 0;
  for (size_t i = 0; i < primals.size(); ++i)
    if (wanted[i]) result[i] = made[next++];
  return result;
}

std::vector<bool> only_floats(std::vector<bool> wanted, std::span<const Tensor> in) {
  for (size_t i = 0; i < wanted.size(); ++i) wanted[i] = wanted[i] && is_float(in[i].dtype());
  return wanted;
}

StridedElements strided(const Operand& x) {
  StridedElements elements{x.first(), element_type(x.spec->dtype), {}};
  std::copy(x.data->strides.begin(), x.data->strides.end(), elements.strides.begin());
  return elements;
}

TensorRows rows_of(const Shape& shape) {
  TensorRows rows{.rank = static_cast<int>(shape.size())};
  std::copy(shape.begin(), shape.end(), rows.shape.begin());
  return rows;
}

void require_floats(std::string_view function, std::string_view argument, const Tensor& x) {
  require(function, x);
  if (!is_float(x.dtype()))
    fail(ErrorKind::kInput, "{}: {} of {}, expected floats", function, argument, name(x.dtype()));
}

}  // namespace veery::tensor::fast
