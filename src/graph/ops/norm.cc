#include "graph/ops/norm.h"

#include "graph/graph.h"
#include "graph/ops/elementwise.h"

namespace veery::op::detail {

Value decompose_rms_norm_add(Graph& graph, const Node& node) {
  const Value y = graph.add(
      kRmsNorm, inputs({node.in[RmsNormAddIn::kX], node.in[RmsNormAddIn::kWeight]}), node.attr);
  return graph.add(kAdd, inputs({y, node.in[RmsNormAddIn::kResidual]}));
}

}  // namespace veery::op::detail
