// graph.h: a traced computation: nodes in order, data only.
#pragma once
#include <array>
#include <initializer_list>
#include <string>
#include <vector>

#include "graph/op.h"

namespace veery {

using Inputs = std::array<Value, kMaxInputs>;

/// Inputs listed from the front, the rest absent.
Inputs inputs(std::initializer_list<Value> values);

struct Node {
  Op op;
  Outputs outputs;
  Inputs in;
  Attr attr;
  std::string name;  ///< leaves: what they are bound to; others: for inspection, may be empty

  const Shape& shape() const { return outputs.types[0].shape; }  ///< of the first output
  template <typename A>
  const A& as() const {
    const A* held = attr.get<A>();
    VEERY_CHECK(held != nullptr);
    return *held;
  }
};

/// Nodes refer only to earlier ones, so the order of nodes is an order of execution.
class Graph {
 public:
  /// A leaf: parameter, input (with InputAttr), state or constant.
  NodeId leaf(Op op, std::string name, const Shape& shape, const Attr& attr = {});
  /// An op on earlier values; shapes and types of its outputs follow from its row. Throws kInput,
  /// naming op and shapes.
  NodeId add(Op op, const Inputs& in, const Attr& attr = {}, std::string name = {});

  const Node& operator[](NodeId id) const { return nodes_[static_cast<size_t>(id)]; }
  Node& operator[](NodeId id) { return nodes_[static_cast<size_t>(id)]; }
  const Node& operator[](Value value) const { return (*this)[value.node]; }
  const ValueType& type(Value value) const {
    return (*this)[value.node].outputs.types[value.output];
  }
  const Shape& shape(Value value) const { return type(value).shape; }
  NodeId size() const { return static_cast<NodeId>(nodes_.size()); }
  const std::vector<Node>& nodes() const { return nodes_; }

 private:
  std::vector<Node> nodes_;
};

/// Which nodes are needed for `roots`. Cache writes count as needed by a later attend on the same
/// state, whose input they are.
std::vector<bool> needed_for(const Graph& graph, const std::vector<Value>& roots);

/// How often each node is an input of a needed node.
std::vector<int> use_counts(const Graph& graph, const std::vector<bool>& needed);

/// Checks what every pass must keep: order, inputs, shapes and types by the rows of the ops. Throws
/// kBug naming the node.
void verify(const Graph& graph);

/// What one node costs in a run of this size.
Cost cost_of(const Graph& graph, const Node& node, const RunSize& size);

}  // namespace veery
