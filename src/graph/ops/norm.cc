#include "graph/ops/norm.h"

#include "graph/graph.h"
#include "graph/ops/elementwise.h"

namespace veery::op::detail {

Value decompose_rms_norm(Graph& graph, const Node& node) {
  const Value y =
      graph.add(kRmsNorm, inputs({node.in[RmsNormIn::kX], node.in[RmsNormIn::kWeight]}), node.attr);
  const Value residual = node.in[RmsNormIn::kResidual];
  return residual ? graph.add(kAdd, inputs({y, residual})) : y;
}

}  // namespace veery::op::detail
