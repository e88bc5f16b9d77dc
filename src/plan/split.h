// split.h: splits a graph into two, for two places: the first layers, and the rest.
#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "graph/graph.h"

namespace veery {

/// Returns the layer N of a weight or state "blk.N. ..."; -1 for any other name.
int32_t layer_of(std::string_view name);

struct SplitGraph {
  Graph front, back;
  /// Values of the front that are inputs of the back or roots.
  std::vector<Value> crossing;
  std::vector<std::string> inputs;  ///< their names in the back, unique for each value of the graph
  struct Root {
    Value value;        ///< in the back, if `crossing` is -1
    int crossing = -1;  ///< otherwise the index of the root in SplitGraph::crossing
  };
  std::vector<Root> roots;
};

/// Splits a graph. The back gets the nodes that depend on layers >= `first`, the front all other
/// nodes that `roots` need. Throws kUnsupported, naming the value, if the back reads a cache of a
/// layer in the front.
SplitGraph split(const Graph& graph, const std::vector<Value>& roots, int32_t first);

}  // namespace veery
