// rule.h: differentiation rules, one DiffDef per forward op.
#pragma once
#include <algorithm>
#include <array>
#include <initializer_list>
#include <span>
#include <string_view>
#include <vector>

#include "graph/graph.h"
#include "graph/ops/ops.h"

namespace veery {

/// Input of a vjp rule: the node y, the cotangents of its outputs, and the nodes that depend on an
/// input of the differentiation.
struct VjpContext {
  Graph& graph;
  NodeId y;
  std::array<Value, kMaxOutputs> cotangents;  ///< absent: the result does not depend on the output
  const std::vector<bool>& wanted;            ///< by node: a gradient is required

  // Returned by value, because adding nodes moves the graph's storage.
  Node node() const { return graph[y]; }
  Value dy() const { return cotangents[0]; }
  Value in(int i) const { return graph[y].in[static_cast<size_t>(i)]; }
  bool wants(int i) const { return in(i) && wanted[static_cast<size_t>(in(i).node)]; }
  Value make(Op op, std::initializer_list<Value> values, const Attr& attr = {}) const {
    return graph.add(op, inputs(values), attr);
  }
};

/// The tangents of the outputs of a node; absent: the output is constant. The tangent of a single
/// output converts implicitly.
struct Tangents {
  std::array<Value, kMaxOutputs> of{};

  Tangents() = default;
  Tangents(Value first) { of[0] = first; }  // NOLINT(google-explicit-constructor)
  Tangents(std::initializer_list<Value> outputs) {
    std::copy(outputs.begin(), outputs.end(), of.begin());
  }
};

/// Input of a jvp rule: the node y and the tangents of its inputs, at least one of which is
/// present.
struct JvpContext {
  Graph& graph;
  NodeId y;
  Inputs tangents;  ///< absent: the input is constant

  Node node() const { return graph[y]; }
  Value in(int i) const { return graph[y].in[static_cast<size_t>(i)]; }
  Value t(int i) const { return tangents[static_cast<size_t>(i)]; }
  Value make(Op op, std::initializer_list<Value> values, const Attr& attr = {}) const {
    return graph.add(op, inputs(values), attr);
  }
  /// Returns a + b; either may be absent.
  Value sum(Value a, Value b) const { return a && b ? make(op::kAdd, {a, b}) : a ? a : b; }
};

/// Throws kUnsupported if the node reads keys, values or a recurrent state of earlier runs, because
/// these belong to serving. The trace of a model for training has none.
void require_no_state(const Graph& graph, NodeId y);

/// The rules of a forward op. `no_vjp` and `no_jvp` give the reason if a rule is missing.
struct DiffDef {
  Op op;
  /// Returns the cotangents of the inputs, at least of those with wants(i).
  Inputs (*vjp)(const VjpContext&) = nullptr;
  /// Returns the tangents of the outputs.
  Tangents (*jvp)(const JvpContext&) = nullptr;
  std::string_view no_vjp = {};
  std::string_view no_jvp = {};
};

using DiffTable = std::span<const DiffDef>;
// One table per op family, in autodiff/rules/FAMILY.cc.
DiffTable elementwise_rules();
DiffTable linear_rules();
DiffTable norm_rules();
DiffTable position_rules();
DiffTable attention_rules();
DiffTable recurrence_rules();
DiffTable row_rules();
DiffTable expert_rules();
DiffTable loss_rules();

/// Returns the rules of an op, or nullptr for leaves, backward and fused ops.
const DiffDef* find_rule(Op op);

}  // namespace veery
