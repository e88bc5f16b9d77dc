// graph.h: a traced computation: nodes in order, data only.
#pragma once
#include <array>
#include <initializer_list>
#include <string>
#include <vector>

#include "dtype/dtype.h"
#include "graph/attr.h"
#include "graph/op.h"
#include "graph/shape.h"

namespace veery {

using NodeId = int32_t;
inline constexpr NodeId kNoNode = -1;
using Inputs = std::array<NodeId, kMaxInputs>;

/// Inputs listed from the front, the rest absent.
Inputs inputs(std::initializer_list<NodeId> ids);

struct Node {
  Op op = Op::kParam;
  Shape shape;
  Inputs in;
  Attr attr;
  std::string name;  ///< leaves: what they are bound to; others: for inspection, may be empty

  template <typename A>
  const A& as() const {
    return std::get<A>(attr);
  }
};

/// Nodes refer only to earlier ones, so the order of nodes is an order of execution.
class Graph {
 public:
  /// A leaf: parameter, slot, state or constant.
  NodeId leaf(Op op, std::string name, Shape shape, Attr attr = {});
  /// An op on earlier nodes; the shape follows from the op table's rule. Throws kInput, naming op
  /// and shapes.
  NodeId add(Op op, const Inputs& in, Attr attr = {}, std::string name = {});

  const Node& operator[](NodeId id) const { return nodes_[static_cast<size_t>(id)]; }
  Node& operator[](NodeId id) { return nodes_[static_cast<size_t>(id)]; }
  NodeId size() const { return static_cast<NodeId>(nodes_.size()); }
  const std::vector<Node>& nodes() const { return nodes_; }

 private:
  std::vector<Node> nodes_;
};

/// f32, or i32 for slots and indices.
DType value_type(const Node& node);

/// Which nodes are needed for `roots`. Cache writes count as needed by a later attend on the same
/// state.
std::vector<bool> needed_for(const Graph& graph, const std::vector<NodeId>& roots);

/// How often each node is an input of a needed node.
std::vector<int> use_counts(const Graph& graph, const std::vector<bool>& needed);

/// Checks what every pass must keep: order, arity, shapes by the op table. Throws kBug naming the
/// node.
void verify(const Graph& graph);

/// Work of one node in a run of `rows` tokens, `outputs` output rows, at `context` positions.
struct RunSize {
  int64_t rows = 1;
  int64_t outputs = 1;
  int64_t context = 1;
};
/// Floating-point operations, a multiply-add counted as two.
double flops(const Graph& graph, const Node& node, const RunSize& size);

}  // namespace veery
