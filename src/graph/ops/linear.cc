#include "graph/ops/linear.h"

#include "graph/graph.h"
#include "graph/ops/norm.h"
#include "graph/ops/rows.h"

namespace veery::op::detail {

Outputs linear(const OpContext& c) {
  const auto& attr = c.attr<LinearAttr>();
  const Shape& x = c.shape(LinearIn::kX);
  c.require(attr.weights >= 1 && attr.weights <= LinearIn::kWeights, "expected 1 to 3 weights");
  int64_t cols = 0;
  for (int i = 0; i < attr.weights; ++i) {
    const Shape& w = c.shape(LinearIn::kWeight + i);
    c.require(w.cols() == x.cols(), "the columns of x and of each weight must agree");
    if (c.has(LinearIn::kBias + i))
      c.require(c.shape(LinearIn::kBias + i) == Shape{1, w.rows()}, "a bias must be [1, out]");
    cols += w.rows().size;
  }
  if (attr.gate != Activation::kNone) {
    const Shape& w = c.shape(LinearIn::kWeight);
    c.require(attr.weights < 3, "a gate takes one weight or two");
    if (attr.weights == 2)
      c.require(w == c.shape(LinearIn::kWeight + 1), "the weights of a gate have one shape");
    cols = w.rows().size;
  }
  const Shape out{x.rows(), cols};
  if (c.has(LinearIn::kNorm))
    c.require(c.shape(LinearIn::kNorm) == Shape{1, x.cols()}, "the norm weight must be [1, in]");
  if (c.has(LinearIn::kResidual))
    c.require(c.shape(LinearIn::kResidual) == out,
              "the residual must have the shape of the result");
  return out;
}

Cost linear_cost(const OpContext& c, const Outputs&, const RunSize& size) {
  double weights = 0;
  for (int i = 0; i < LinearIn::kWeights; ++i)
    if (c.has(LinearIn::kWeight + i)) weights += size.elements(c.shape(LinearIn::kWeight + i));
  return {.flops = 2 * size(c.shape(LinearIn::kX).rows()) * weights};
}

// Norm, products (concatenated or gated), scale and residual as separate nodes.
Value decompose_linear(Graph& graph, const Node& node) {
  const auto attr = node.as<LinearAttr>();
  const auto in = [&](int i) { return node.in[static_cast<size_t>(i)]; };
  Value x = in(LinearIn::kX);
  if (in(LinearIn::kNorm))
    x = graph.add(kRmsNorm, inputs({x, in(LinearIn::kNorm)}), NormAttr{.eps = attr.eps});
  std::array<Value, LinearIn::kWeights> parts;
  for (int i = 0; i < attr.weights; ++i) {
    Inputs of_part{};
    of_part[LinearIn::kX] = x;
    of_part[LinearIn::kWeight] = in(LinearIn::kWeight + i);
    of_part[LinearIn::kBias] = in(LinearIn::kBias + i);
    parts[static_cast<size_t>(i)] =
        graph.add(kLinear, of_part, LinearAttr{.precision = attr.precision});
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
  return in(LinearIn::kResidual) ? graph.add(kAdd, inputs({y, in(LinearIn::kResidual)})) : y;
}

Value decompose_linear_argmax(Graph& graph, const Node& node) {
  return graph.add(kArgmax, inputs({decompose_linear(graph, node)}));
}

}  // namespace veery::op::detail
