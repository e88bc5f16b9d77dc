// weight_use.h: how a graph reads its weights.
#pragma once
#include <map>
#include <string>

#include "graph/graph.h"

namespace veery {

/// How the nodes of a graph read one parameter.
struct ParamUse {
  bool gathered = false;    ///< rows are looked up by token ids
  bool multiplied = false;  ///< any other use, such as a matrix product

  /// Whether rows are looked up and nothing else reads the parameter. Such a weight may be most of
  /// a file, and a run reads little of it.
  bool is_only_gathered() const { return gathered && !multiplied; }
};

/// Returns the uses of every parameter that some node reads, by name.
std::map<std::string, ParamUse> param_uses(const Graph& graph);

}  // namespace veery
