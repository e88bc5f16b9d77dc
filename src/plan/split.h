// split.h: a graph in two parts: the first layers for the host, what follows for a device.
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
  std::vector<Value> crossing;      ///< values of the front that the back takes as inputs
  std::vector<std::string> inputs;  ///< names of these, the same for the same value of the graph
  std::vector<Value> roots;         ///< in the back
};

/// What layers from `first` on go into is the back, all else that it takes the front. Throws
/// kUnsupported, naming what it is, where a root is in the front, or where the back takes more from
/// it than rows of numbers: a cache that it shares with a layer of the front.
SplitGraph split(const Graph& graph, const std::vector<Value>& roots, int32_t first);

}  // namespace veery
