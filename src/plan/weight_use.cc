#include "plan/weight_use.h"

#include "graph/ops/ops.h"

namespace veery {

std::map<std::string, ParamUse> param_uses(const Graph& graph) {
  std::map<std::string, ParamUse> uses;
  for (const Node& node : graph.nodes())
    for (size_t i = 0; i < node.in.size(); ++i) {
      if (!node.in[i] || graph[node.in[i]].op != op::kParam) continue;
      ParamUse& use = uses[graph[node.in[i]].name];
      (node.op == op::kEmbed && i == EmbedIn::kWeight ? use.gathered : use.multiplied) = true;
    }
  return uses;
}

}  // namespace veery
