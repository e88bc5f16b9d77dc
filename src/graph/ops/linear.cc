#include "graph/ops/linear.h"

#include "graph/graph.h"
#include "graph/ops/norm.h"
#include "graph/ops/rows.h"

namespace veery::op::detail {

Outputs linear(const OpContext& c) {
  const Shape& x = c.shape(LinearIn::kX);
  const Shape& w = c.shape(LinearIn::kWeight);
  c.attr<LinearAttr>();
  c.require(w.cols() == x.cols(), "the columns of x and of the weight must agree");
  if (c.has(LinearIn::kBias))
    c.require(c.shape(LinearIn::kBias) == Shape{1, w.rows()}, "the bias must be [1, out]");
  return Shape{x.rows(), w.rows().size};
}

Cost linear_cost(const OpContext& c, const Outputs&, const RunSize& size) {
  return {.flops =
              2 * size(c.shape(LinearIn::kX).rows()) * size.elements(c.shape(LinearIn::kWeight))};
}

Node linear_kernel_form(const Node& node) {
  Node fused = node;
  fused.op = kFusedLinear;
  fused.in = {};
  fused.in[FusedLinearIn::kX] = node.in[LinearIn::kX];
  fused.in[FusedLinearIn::kWeight] = node.in[LinearIn::kWeight];
  fused.in[FusedLinearIn::kBias] = node.in[LinearIn::kBias];
  fused.attr = FusedLinearAttr{.precision = node.as<LinearAttr>().precision};
  return fused;
}

Outputs head_linear_back_x(const OpContext& c) {
  const Shape& dy = c.shape(HeadLinearBackXIn::kDy);
  const Shape& w = c.shape(HeadLinearBackXIn::kWeight);
  const int64_t heads = c.attr<HeadsAttr>().heads;
  c.require(heads >= 1 && dy.cols() % heads == 0, "the columns must divide into the heads");
  c.require(w.rank == 3 && w[0] == heads && w[1].size <= dy.cols() / heads,
            "the weight must be [heads, out, in], with out at most the columns of a head of dy");
  return Shape{dy.rows(), dy.cols() - w.rows().size + heads * w.cols()};
}

Outputs head_linear_back_w(const OpContext& c) {
  const Shape& dy = c.shape(HeadLinearBackWIn::kDy);
  const Shape& x = c.shape(HeadLinearBackWIn::kX);
  const Shape& w = c.shape(HeadLinearBackWIn::kWeight);
  const int64_t heads = c.attr<HeadsAttr>().heads;
  c.require(heads >= 1 && w.rank == 3 && w[0] == heads, "the weight must be [heads, out, in]");
  c.require(dy.rows() == x.rows() && dy.cols() == w.rows().size + x.cols() - heads * w.cols(),
            "dy must have the shape of the result of head_linear");
  return w;
}

Outputs head_linear_tangent(const OpContext& c) {
  if (c.has(HeadLinearTangentIn::kTx))
    c.same_shape(HeadLinearTangentIn::kX, HeadLinearTangentIn::kTx);
  if (c.has(HeadLinearTangentIn::kTweight))
    c.same_shape(HeadLinearTangentIn::kWeight, HeadLinearTangentIn::kTweight);
  return head_linear(c);
}

Outputs fused_linear(const OpContext& c) {
  const auto& attr = c.attr<FusedLinearAttr>();
  const Shape& x = c.shape(FusedLinearIn::kX);
  c.require(attr.weights >= 1 && attr.weights <= FusedLinearIn::kWeights,
            "expected 1 to 3 weights");
  int64_t cols = 0;
  for (int i = 0; i < attr.weights; ++i) {
    const Shape& w = c.shape(FusedLinearIn::kWeight + i);
    c.require(w.cols() == x.cols(), "the columns of x and of each weight must agree");
    if (c.has(FusedLinearIn::kBias + i))
      c.require(c.shape(FusedLinearIn::kBias + i) == Shape{1, w.rows()}, "a bias must be [1, out]");
    cols += w.rows().size;
  }
  if (attr.gate != Activation::kNone) {
    const Shape& w = c.shape(FusedLinearIn::kWeight);
    c.require(attr.weights < 3, "a gate takes one weight or two");
    if (attr.weights == 2)
      c.require(w == c.shape(FusedLinearIn::kWeight + 1), "the weights of a gate have one shape");
    cols = w.rows().size;
  }
  const Shape out{x.rows(), cols};
  if (c.has(FusedLinearIn::kNorm))
    c.require(c.shape(FusedLinearIn::kNorm) == Shape{1, x.cols()},
              "the norm weight must be [1, in]");
  if (c.has(FusedLinearIn::kResidual))
    c.require(c.shape(FusedLinearIn::kResidual) == out,
              "the residual must have the shape of the result");
  return out;
}

Cost fused_linear_cost(const OpContext& c, const Outputs&, const RunSize& size) {
  double weights = 0;
  for (int i = 0; i < FusedLinearIn::kWeights; ++i)
    if (c.has(FusedLinearIn::kWeight + i))
      weights += size.elements(c.shape(FusedLinearIn::kWeight + i));
  return {.flops = 2 * size(c.shape(FusedLinearIn::kX).rows()) * weights};
}

// Norm, products (concatenated or gated), scale and residual as separate nodes.
Value decompose_fused_linear(Graph& graph, const Node& node) {
  const auto attr = node.as<FusedLinearAttr>();
  const auto in = [&](int i) { return node.in[static_cast<size_t>(i)]; };
  Value x = in(FusedLinearIn::kX);
  if (in(FusedLinearIn::kNorm))
    x = graph.add(kRmsNorm, inputs({x, in(FusedLinearIn::kNorm)}), NormAttr{.eps = attr.eps});
  std::array<Value, FusedLinearIn::kWeights> parts;
  for (int i = 0; i < attr.weights; ++i) {
    parts[static_cast<size_t>(i)] = graph.add(
        kLinear, inputs({x, in(FusedLinearIn::kWeight + i), in(FusedLinearIn::kBias + i)}),
        LinearAttr{attr.precision});
  }
  Value y = parts[0];
  if (attr.gate != Activation::kNone) {
    y = graph.add(kActivate, inputs({y}), attr.gate);
    if (attr.weights == 2) y = graph.add(kMul, inputs({y, parts[1]}));
  } else {
    for (int i = 1; i < attr.weights; ++i)
      y = graph.add(kConcat, inputs({y, parts[static_cast<size_t>(i)]}));
  }
  if (attr.scale != 1) y = graph.add(kScale, inputs({y}), ScaleAttr{attr.scale});
  return in(FusedLinearIn::kResidual) ? graph.add(kAdd, inputs({y, in(FusedLinearIn::kResidual)}))
                                      : y;
}

Value decompose_linear_argmax(Graph& graph, const Node& node) {
  return graph.add(kArgmax, inputs({decompose_fused_linear(graph, node)}));
}

}  // namespace veery::op::detail
