// linear.h: matrix products with weights.
#pragma once
#include "graph/ops/elementwise.h"

namespace veery {

/// kHigh: kernels with int8 activations use residual quantisation: x is the sum of two int8 rows,
/// the second of which represents the rounding error of the first.
enum class Precision : uint8_t { kUsual, kHigh };

/// Parameters of linear.
struct LinearAttr {
  Precision precision = Precision::kUsual;
};
/// Parameters of fused_linear. One weight: y = x w^T. Several: their outputs are concatenated. With
/// `gate`: one weight, y = gate(x w^T), or two, y = gate(x w0^T) * (x w1^T). The result is
/// multiplied by `scale`. `eps` is that of the norm, if present.
struct FusedLinearAttr {
  int32_t weights = 1;
  ActivateAttr gate;
  float eps = 0;
  float scale = 1;
  Precision precision = Precision::kUsual;
};
/// Parameters of head_linear.
struct HeadsAttr {
  int32_t heads = 1;
};

struct LinearIn {
  enum { kX, kWeight, kBias };
};
struct FusedLinearIn {
  static constexpr int kWeights = 3;
  enum { kX, kNorm, kResidual, kWeight, kBias = kWeight + kWeights };
};
struct HeadLinearIn {
  enum { kX, kWeight };
};
struct HeadLinearBackXIn {
  enum { kDy, kWeight };
};
struct HeadLinearBackWIn {
  enum { kDy, kX, kWeight };
};
struct HeadLinearTangentIn {
  enum { kX, kWeight, kTx, kTweight };
};
struct LinearBackXIn {
  enum { kDy, kWeight };
};
struct LinearBackWIn {
  enum { kDy, kX };
};
struct BiasBackIn {
  enum { kDy, kBias };
};

namespace op {
namespace detail {

Outputs linear(const OpContext& c);
Cost linear_cost(const OpContext& c, const Outputs& out, const RunSize& size);
Node linear_kernel_form(const Node& node);
Outputs fused_linear(const OpContext& c);
Cost fused_linear_cost(const OpContext& c, const Outputs& out, const RunSize& size);
Value decompose_fused_linear(Graph& graph, const Node& node);
Value decompose_linear_argmax(Graph& graph, const Node& node);

inline Outputs linear_argmax(const OpContext& c) {
  return {{fused_linear(c).types[0].shape.rows(), 1}, DType::kI32};
}
inline Outputs head_linear(const OpContext& c) {
  const Shape& x = c.shape(HeadLinearIn::kX);
  const Shape& w = c.shape(HeadLinearIn::kWeight);
  const int64_t heads = c.attr<HeadsAttr>().heads;
  c.require(heads >= 1 && x.cols() % heads == 0, "the columns must divide into the heads");
  c.require(w.rank == 3 && w[0] == heads && w.cols() <= x.cols() / heads,
            "the weight must be [heads, out, in], in at most the columns of a head");
  return Shape{x.rows(), w.rows().size + x.cols() - heads * w.cols()};
}
inline Cost head_linear_cost(const OpContext& c, const Outputs&, const RunSize& size) {
  return {.flops = 2 * size(c.shape(HeadLinearIn::kX).rows()) *
                   size.elements(c.shape(HeadLinearIn::kWeight))};
}
Outputs head_linear_back_x(const OpContext& c);
Outputs head_linear_back_w(const OpContext& c);
Outputs head_linear_tangent(const OpContext& c);
inline Cost head_linear_back_cost(const OpContext& c, const Outputs&, const RunSize& size) {
  const Shape& weight =
      c.shape(c.has(HeadLinearBackWIn::kWeight) ? int{HeadLinearBackWIn::kWeight}
                                                : int{HeadLinearBackXIn::kWeight});
  return {.flops = 2 * size(c.shape(HeadLinearBackXIn::kDy).rows()) * size.elements(weight)};
}
inline Outputs linear_back_x(const OpContext& c) {
  const Shape& dy = c.shape(LinearBackXIn::kDy);
  const Shape& w = c.shape(LinearBackXIn::kWeight);
  c.require(Dim(dy.cols()) == w.rows(), "dy must have a column for each row of the weight");
  return Shape{dy.rows(), w.cols()};
}
inline Outputs linear_back_w(const OpContext& c) {
  const Shape& dy = c.shape(LinearBackWIn::kDy);
  const Shape& x = c.shape(LinearBackWIn::kX);
  c.require(dy.rows() == x.rows(), "dy and x must have the same rows");
  return Shape{dy.cols(), x.cols()};
}
inline Cost linear_back_cost(const OpContext& c, const Outputs&, const RunSize& size) {
  return {.flops = 2 * size.elements(c.shape(0)) * static_cast<double>(c.shape(1).cols())};
}
inline Outputs bias_back(const OpContext& c) {
  const Shape& bias = c.shape(BiasBackIn::kBias);
  c.require(bias.rows() == Dim(1) && c.shape(BiasBackIn::kDy).cols() % bias.cols() == 0,
            "the columns must divide into parts of the bias");
  return bias;
}

}  // namespace detail

/// y = x w^T + bias. x [rows, in], weight [out, in], bias [1, out] -> [rows, out]. Its kernels are
/// those of fused_linear.
inline constexpr OpDef kLinear{.name = "linear",
                               .inputs = {"x", "weight", "bias?"},
                               .infer = detail::linear,
                               .cost = detail::linear_cost,
                               .kernel_form = detail::linear_kernel_form};
/// y = linear(norm(x)) * scale + residual. x [rows, in], norm [1, in] (weight of an RMS norm),
/// residual [rows, out], weights [out, in], biases [1, out].
inline constexpr OpDef kFusedLinear{.name = "fused_linear",
                                    .group = OpGroup::kFused,
                                    .inputs = {"x", "norm?", "residual?", "weight", "weight1?",
                                               "weight2?", "bias?", "bias1?", "bias2?"},
                                    .infer = detail::fused_linear,
                                    .cost = detail::fused_linear_cost,
                                    .decompose = detail::decompose_fused_linear};
/// Like fused_linear with one weight -> [rows, 1] i32: the argmax. The products are not
/// materialised.
inline constexpr OpDef kLinearArgmax{.name = "linear_argmax",
                                     .group = OpGroup::kFused,
                                     .inputs = kFusedLinear.inputs,
                                     .outputs = {"index"},
                                     .infer = detail::linear_argmax,
                                     .cost = detail::fused_linear_cost,
                                     .decompose = detail::decompose_linear_argmax};
/// Multiplies the first `in` columns of each of `heads` parts of a row by a matrix of its own and
/// keeps the remaining columns of the part after the result. x [rows, heads * (in + rest)], weight
/// [heads, out, in] -> [rows, heads * (out + rest)].
inline constexpr OpDef kHeadLinear{.name = "head_linear",
                                   .inputs = {"x", "weight"},
                                   .infer = detail::head_linear,
                                   .cost = detail::head_linear_cost};
inline constexpr OpDef kHeadLinearBackX{.name = "head_linear_back_x",
                                        .group = OpGroup::kBackward,
                                        .inputs = {"dy", "weight"},
                                        .outputs = {"dx"},
                                        .infer = detail::head_linear_back_x,
                                        .cost = detail::head_linear_back_cost};
/// Only the shape of the weight is used.
inline constexpr OpDef kHeadLinearBackW{.name = "head_linear_back_w",
                                        .group = OpGroup::kBackward,
                                        .inputs = {"dy", "x", "weight"},
                                        .outputs = {"dweight"},
                                        .infer = detail::head_linear_back_w,
                                        .cost = detail::head_linear_back_cost};
/// The tangent of y for those of x and weight; absent ones are zero.
inline constexpr OpDef kHeadLinearTangent{.name = "head_linear_tangent",
                                          .group = OpGroup::kBackward,
                                          .inputs = {"x", "weight", "tx?", "tweight?"},
                                          .infer = detail::head_linear_tangent,
                                          .cost = detail::head_linear_cost};
inline constexpr OpDef kLinearBackX{.name = "linear_back_x",
                                    .group = OpGroup::kBackward,
                                    .inputs = {"dy", "weight"},
                                    .outputs = {"dx"},
                                    .infer = detail::linear_back_x,
                                    .cost = detail::linear_back_cost};
inline constexpr OpDef kLinearBackW{.name = "linear_back_w",
                                    .group = OpGroup::kBackward,
                                    .inputs = {"dy", "x"},
                                    .outputs = {"dweight"},
                                    .infer = detail::linear_back_w,
                                    .cost = detail::linear_back_cost};
/// Only the shape of the bias [1, n] is used; n divides the columns of dy.
inline constexpr OpDef kBiasBack{.name = "bias_back",
                                 .group = OpGroup::kBackward,
                                 .inputs = {"dy", "bias"},
                                 .outputs = {"dbias"},
                                 .infer = detail::bias_back,
                                 .cost = detail::elements<1>};

inline constexpr Op kProducts[] = {
    kLinear,          kFusedLinear,       kLinearArgmax, kHeadLinear,  kHeadLinearBackX,
    kHeadLinearBackW, kHeadLinearTangent, kLinearBackX,  kLinearBackW, kBiasBack};

}  // namespace op
}  // namespace veery
