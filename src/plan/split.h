// split.h: a graph in two parts, for two places: the first layers, and what follows.
#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "graph/graph.h"

namespace veery {

/// The layer N of a weight or a state "blk.N. ..", -1 of any other.
int32_t layer_of(std::string_view name);

struct SplitGraph {
  Graph front, back;
  /// Values of the front that the back takes as inputs, and roots that the front computes.
  std::vector<Value> crossing;
  std::vector<std::string> inputs;  ///< names of these, the same for the same value of the graph
  struct Root {
    Value value;        ///< in the back, unless
    int crossing = -1;  ///< it is this one of `crossing`
  };
  std::vector<Root> roots;
};

/// The back has what depends on layers from `first` on, the front all else that is needed. Throws
/// kUnsupported, naming the value, if the back reads a cache of a layer of the front.
SplitGraph split(const Graph& graph, const std::vector<Value>& roots, int32_t first);

}  // namespace veery
