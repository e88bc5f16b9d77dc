// rule.h: how an op is differentiated: one row, DiffDef, for each forward op.
#pragma once
#include <array>
#include <span>
#include <string_view>
#include <vector>

#include "graph/graph.h"
#include "graph/ops/ops.h"

namespace veery {

/// What a vjp rule is given: the node y, the cotangents of its outputs, and which values lead to
/// one that a gradient is wanted for.
struct VjpContext {
  Graph& graph;
  NodeId y;
  std::array<Value, kMaxOutputs> cotangents;  ///< absent: nothing depends on the output
  const std::vector<bool>& wanted;            ///< of nodes

  // By value: adding nodes moves the graph's storage.
  Node node() const { return graph[y]; }
  Value dy() const { return cotangents[0]; }
  Value in(int i) const { return graph[y].in[static_cast<size_t>(i)]; }
  bool wants(int i) const { return in(i) && wanted[static_cast<size_t>(in(i).node)]; }
  Value make(Op op, std::initializer_list<Value> values, const Attr& attr = {}) const {
    return graph.add(op, inputs(values), attr);
  }
};

/// What a jvp rule is given: the node y and the tangents of its inputs.
struct JvpContext {
  Graph& graph;
  NodeId y;
  Inputs tangents;  ///< absent: the input does not change

  Node node() const { return graph[y]; }
  Value in(int i) const { return graph[y].in[static_cast<size_t>(i)]; }
  Value t(int i) const { return tangents[static_cast<size_t>(i)]; }
  Value make(Op op, std::initializer_list<Value> values, const Attr& attr = {}) const {
    return graph.add(op, inputs(values), attr);
  }
  /// The sum of both, either of which may be absent.
  Value sum(Value a, Value b) const { return a && b ? make(op::kAdd, {a, b}) : a ? a : b; }
};

/// One row for each forward op. Where a rule is missing, `no_vjp` and `no_jvp` say why.
struct DiffDef {
  Op op;
  /// The cotangents of the inputs, of those at least that are wanted.
  Inputs (*vjp)(const VjpContext&) = nullptr;
  /// The tangent of the output.
  Value (*jvp)(const JvpContext&) = nullptr;
  std::string_view no_vjp = {};
  std::string_view no_jvp = {};
};

using DiffTable = std::span<const DiffDef>;
// One table for each family of ops, in autodiff/rules/FAMILY.cc.
DiffTable elementwise_rules();
DiffTable linear_rules();
DiffTable norm_rules();
DiffTable position_rules();
DiffTable attention_rules();
DiffTable recurrence_rules();
DiffTable row_rules();
DiffTable expert_rules();
DiffTable loss_rules();

/// nullptr: the op has no row, as leaves, backward and fused ops have none.
const DiffDef* find_rule(Op op);

}  // namespace veery
