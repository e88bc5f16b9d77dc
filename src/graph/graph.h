// graph.h: a traced computation as a list of nodes.
#pragma once
#include <array>
#include <cstddef>
#include <initializer_list>
#include <memory>
#include <string>
#include <vector>

#include "graph/op.h"

namespace veery {

using Inputs = std::array<Value, kMaxInputs>;

/// Returns `values` as the first inputs; the others are absent.
Inputs inputs(std::initializer_list<Value> values);

/// The elements of a constant array in rows without padding, shared by all copies of a graph.
using ConstantBytes = std::shared_ptr<const std::vector<std::byte>>;

struct Node {
  Op op;
  Outputs outputs;
  Inputs in;
  Attr attr;
  std::string name;  ///< leaves: what they are bound to; other nodes: for inspection, may be empty
  ConstantBytes data = {};  ///< of op::kData

  const Shape& shape() const { return outputs.types[0].shape; }  ///< of the first output
  template <typename A>
  const A& as() const {
    const A* held = attr.get<A>();
    VEERY_CHECK(held != nullptr);
    return *held;
  }
};

/// Nodes refer only to earlier nodes, so their order is an order of execution.
class Graph {
 public:
  /// A leaf: parameter, input (with InputAttr), state or variable (with VariableAttr).
  NodeId leaf(Op op, std::string name, const Shape& shape, const Attr& attr = {});
  /// A constant array. Throws kInput unless the shape is known and `data` has its
  /// size.
  NodeId leaf(Op op, std::string name, const ValueType& type, ConstantBytes data);
  /// A copy of a leaf of another graph.
  NodeId copy_leaf(const Node& leaf);
  /// Adds an op on earlier values; its OpDef infers shapes and types of the outputs. Throws kInput,
  /// naming the op and the shapes.
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

/// Returns by node whether `roots` need it. A cache write is needed by a later attend on the same
/// state, because it is an input of that node.
std::vector<bool> needed_for(const Graph& graph, const std::vector<Value>& roots);

/// Returns how often each node is an input of a needed node.
std::vector<int> use_counts(const Graph& graph, const std::vector<bool>& needed);

/// Checks the invariants that every pass must preserve: order, inputs, and the shapes and types
/// that the ops infer. Throws kBug naming the node.
void verify(const Graph& graph);

/// Returns the node whose op has the kernels that compute `node`: OpDef::kernel_form.
Node kernel_form(const Node& node);

/// Returns the cost of a node in a run of the given size.
Cost cost_of(const Graph& graph, const Node& node, const RunSize& size);

}  // namespace veery
