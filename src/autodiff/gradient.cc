#include "autodiff/gradient.h"

#include <algorithm>

#include "autodiff/rule.h"

namespace veery {
namespace {

// Integers are constants: nothing depends on them.
bool is_integer(const Graph& graph, Value value) {
  const DType type = graph.type(value).dtype;
  return type == DType::kI32 || type == DType::kU8;
}

// Returns the nodes that depend on `wrt`: only these need a derivative. With `through_integers`,
// dependencies such as the choice of an expert count too.
std::vector<bool> leads_to(const Graph& graph, const std::vector<Array>& wrt,
                           bool through_integers = false) {
  std::vector<bool> wanted(static_cast<size_t>(graph.size()), false);
  for (const Array& array : wrt) wanted[static_cast<size_t>(array.id())] = true;
  for (NodeId id = 0; id < graph.size(); ++id)
    for (Value in : graph[id].in)
      if (in && wanted[static_cast<size_t>(in.node)] &&
          (through_integers || !is_integer(graph, in)))
        wanted[static_cast<size_t>(id)] = true;
  return wanted;
}

// Returns zeros of the shape of x.
Value zeros(Graph& graph, Value x) { return graph.add(op::kScale, inputs({x}), ScaleAttr{0}); }

using Derivatives = std::vector<std::array<Value, kMaxOutputs>>;
Value& at(Derivatives& all, Value value) {
  return all[static_cast<size_t>(value.node)][value.output];
}

void accumulate(Graph& graph, Value& sum, Value term) {
  sum = sum ? Value(graph.add(op::kAdd, inputs({sum, term}))) : term;
}

const DiffDef& rule_for(Op op, bool forward) {
  const DiffDef* rule = find_rule(op);
  const char* mode = forward ? "jvp" : "vjp";
  if (rule == nullptr) throw Error(ErrorKind::kUnsupported, "{}: has no {} rule", op->name, mode);
  if (forward ? rule->jvp == nullptr : rule->vjp == nullptr)
    throw Error(ErrorKind::kUnsupported, "{}: has no {} rule: {}", op->name, mode,
                forward ? rule->no_jvp : rule->no_vjp);
  return *rule;
}

bool is_leaf(const Graph& graph, NodeId id) { return graph[id].op->group == OpGroup::kLeaf; }

// Whether y depends on x only through integers, so that its derivative is zero.
bool only_through_integers(Array y, Array x) {
  const auto id = static_cast<size_t>(y.id());
  return !leads_to(y.graph(), {x})[id] && leads_to(y.graph(), {x}, true)[id];
}

}  // namespace

void require_no_state(const Graph& graph, NodeId y) {
  for (const Value in : graph[y].in)
    if (in && (graph[in].op == op::kState || graph[in].op == op::kCacheWrite))
      throw Error(ErrorKind::kUnsupported,
                  "{}: no derivative through a state; trace the model for training",
                  graph[y].op->name);
}

const DiffDef* find_rule(Op op) {
  for (const DiffTable table :
       {elementwise_rules(), linear_rules(), norm_rules(), position_rules(), attention_rules(),
        recurrence_rules(), row_rules(), expert_rules(), loss_rules()})
    for (const DiffDef& rule : table)
      if (rule.op == op) return &rule;
  return nullptr;
}

std::vector<Array> vjp(Array y, Array dy, const std::vector<Array>& wrt) {
  Graph& graph = y.graph();
  const std::vector<bool> wanted = leads_to(graph, wrt);
  Derivatives cotangents(wanted.size());
  at(cotangents, y.value()) = dy.value();
  for (NodeId id = y.id(); id >= 0; --id) {
    const auto of_outputs = cotangents[static_cast<size_t>(id)];
    const bool depends = std::ranges::any_of(of_outputs, [](Value v) { return bool(v); });
    if (!depends || is_leaf(graph, id) || !wanted[static_cast<size_t>(id)]) continue;
    const Inputs grads = rule_for(graph[id].op, false).vjp({graph, id, of_outputs, wanted});
    for (size_t i = 0; i < grads.size(); ++i) {
      const Value in = graph[id].in[i];
      if (grads[i] && in && wanted[static_cast<size_t>(in.node)])
        accumulate(graph, at(cotangents, in), grads[i]);
    }
  }
  std::vector<Array> result;
  for (const Array& array : wrt) {
    Value grad = at(cotangents, array.value());
    if (!grad && only_through_integers(y, array)) grad = zeros(graph, array.value());
    if (!grad)
      throw Error(ErrorKind::kInput, "gradient: the result does not depend on {}",
                  array.node().name);
    result.emplace_back(graph, grad);
  }
  return result;
}

Array jvp(Array y, const std::vector<Array>& wrt, const std::vector<Array>& tangents) {
  Graph& graph = y.graph();
  VEERY_CHECK(wrt.size() == tangents.size());
  const std::vector<bool> wanted = leads_to(graph, wrt);
  const std::vector<bool> needed = needed_for(graph, {y.value()});
  Derivatives all(wanted.size());
  for (size_t i = 0; i < wrt.size(); ++i) {
    if (tangents[i].shape() != wrt[i].shape())
      throw Error(ErrorKind::kInput, "jvp: the tangent of {} is {}, expected {}",
                  wrt[i].node().name, to_string(tangents[i].shape()), to_string(wrt[i].shape()));
    at(all, wrt[i].value()) = tangents[i].value();
  }
  for (NodeId id = 0; id <= y.id(); ++id) {
    const auto index = static_cast<size_t>(id);
    if (!wanted[index] || !needed[index] || all[index][0] || is_leaf(graph, id)) continue;
    if (is_integer(graph, id) && id != y.id()) continue;
    Inputs of_inputs{};
    for (size_t i = 0; i < of_inputs.size(); ++i)
      if (const Value in = graph[id].in[i]) of_inputs[i] = at(all, in);
    if (std::ranges::none_of(of_inputs, [](Value v) { return bool(v); })) continue;
    all[index] = rule_for(graph[id].op, true).jvp({graph, id, of_inputs}).of;
  }
  Value tangent = at(all, y.value());
  const auto constant = [&](const Array& array) { return only_through_integers(y, array); };
  if (!tangent && std::ranges::any_of(wrt, constant)) tangent = zeros(graph, y.value());
  if (!tangent) throw Error(ErrorKind::kInput, "jvp: the result depends on none of the inputs");
  return {graph, tangent};
}

std::vector<Array> gradient(Array loss, const std::vector<Array>& wrt) {
  if (loss.shape() != Shape{1, 1})
    throw Error(ErrorKind::kInput, "gradient: the loss is {}, expected [1, 1]",
                to_string(loss.shape()));
  Graph& graph = loss.graph();
  return vjp(loss, constant(graph, {1, 1}, 1), wrt);
}

}  // namespace veery
