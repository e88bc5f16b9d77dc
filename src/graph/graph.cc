#include "graph/graph.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/error.h"
#include "graph/leaf_attr.h"

namespace veery {
namespace {

Outputs infer(const Graph& graph, Op op, const Inputs& in, const Attr& attr) {
  if (op->infer == nullptr) throw Error(ErrorKind::kBug, "{}: is no op on values", op->name);
  return op->infer(OpContext(graph, op, in, attr));
}

// Returns a message for a missing or surplus input; empty if the inputs are correct.
std::string misplaced(const Node& node) {
  for (int i = 0; i < kMaxInputs; ++i) {
    const bool given = static_cast<bool>(node.in[static_cast<size_t>(i)]);
    if (i < node.op->input_count() ? !given && !node.op->is_optional(i) : given)
      return i < node.op->input_count()
                 ? fmt::format("lacks input {}", node.op->inputs[static_cast<size_t>(i)])
                 : fmt::format("has more than {} inputs", node.op->input_count());
  }
  return {};
}

}  // namespace

Inputs inputs(std::initializer_list<Value> values) {
  VEERY_CHECK(values.size() <= kMaxInputs);
  Inputs in{};
  std::copy(values.begin(), values.end(), in.begin());
  return in;
}

NodeId Graph::leaf(Op op, std::string name, const Shape& shape, const Attr& attr) {
  VEERY_CHECK(op->group == OpGroup::kLeaf);
  const auto* input = attr.get<InputAttr>();
  const auto* variable = attr.get<VariableAttr>();
  const DType dtype = input != nullptr      ? input->dtype
                      : variable != nullptr ? variable->dtype
                                            : DType::kF32;
  nodes_.push_back({op, {shape, dtype}, inputs({}), attr, std::move(name)});
  return size() - 1;
}

NodeId Graph::leaf(Op op, std::string name, const ValueType& type, ConstantBytes data) {
  VEERY_CHECK(op->group == OpGroup::kLeaf);
  const Dim rows = type.shape.rows();
  const size_t expected =
      rows.is_known() ? static_cast<size_t>(rows.size) * byte_size(type.dtype, type.shape.cols())
                      : 0;
  if (!rows.is_known() || data == nullptr || data->size() != expected)
    throw Error(ErrorKind::kInput, "{}: {} {} takes {} bytes, found {}", op->name,
                info(type.dtype).name, to_string(type.shape), expected,
                data == nullptr ? 0 : data->size());
  nodes_.push_back(
      {op, {type.shape, type.dtype}, inputs({}), {}, std::move(name), std::move(data)});
  return size() - 1;
}

NodeId Graph::copy_leaf(const Node& leaf) {
  VEERY_CHECK(leaf.op->group == OpGroup::kLeaf);
  nodes_.push_back(leaf);
  return size() - 1;
}

NodeId Graph::add(Op op, const Inputs& in, const Attr& attr, std::string name) {
  for (Value value : in) {
    VEERY_CHECK(value.node >= kNoNode && value.node < size());
    VEERY_CHECK(!value || value.output < (*this)[value].outputs.count);
  }
  const Outputs outputs = infer(*this, op, in, attr);
  nodes_.push_back({op, outputs, in, attr, std::move(name)});
  return size() - 1;
}

std::vector<bool> needed_for(const Graph& graph, const std::vector<Value>& roots) {
  std::vector<bool> needed(static_cast<size_t>(graph.size()), false);
  for (Value root : roots) needed[static_cast<size_t>(root.node)] = true;
  for (NodeId id = graph.size() - 1; id >= 0; --id) {
    if (!needed[static_cast<size_t>(id)]) continue;
    for (Value in : graph[id].in)
      if (in) needed[static_cast<size_t>(in.node)] = true;
  }
  return needed;
}

std::vector<int> use_counts(const Graph& graph, const std::vector<bool>& needed) {
  std::vector<int> counts(static_cast<size_t>(graph.size()), 0);
  for (NodeId id = 0; id < graph.size(); ++id) {
    if (!needed[static_cast<size_t>(id)]) continue;
    for (Value in : graph[id].in)
      if (in) ++counts[static_cast<size_t>(in.node)];
  }
  return counts;
}

void verify(const Graph& graph) {
  for (NodeId id = 0; id < graph.size(); ++id) {
    const Node& node = graph[id];
    for (Value in : node.in)
      if (in.node >= id)
        throw Error(ErrorKind::kBug, "graph: node {} ({}) uses node {}, which is not before it", id,
                    node.op->name, in.node);
    if (const std::string wrong = misplaced(node); !wrong.empty())
      throw Error(ErrorKind::kBug, "graph: node {} ({}) {}", id, node.op->name, wrong);
    if (node.op->group == OpGroup::kLeaf) continue;
    const Outputs expected = infer(graph, node.op, node.in, node.attr);
    if (expected != node.outputs)
      throw Error(ErrorKind::kBug, "graph: node {} ({}) is {}, by its rule it is {}", id,
                  node.op->name, to_string(node.shape()), to_string(expected.types[0].shape));
  }
}

Node kernel_form(const Node& node) {
  return node.op->kernel_form == nullptr ? node : node.op->kernel_form(node);
}

Cost cost_of(const Graph& graph, const Node& node, const RunSize& size) {
  if (node.op->cost == nullptr) return {};
  return node.op->cost(OpContext(graph, node.op, node.in, node.attr), node.outputs, size);
}

}  // namespace veery
