#include "graph/graph.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/error.h"
#include "graph/infer.h"

namespace veery {

Inputs inputs(std::initializer_list<NodeId> ids) {
  VEERY_CHECK(ids.size() <= kMaxInputs);
  Inputs in;
  in.fill(kNoNode);
  std::copy(ids.begin(), ids.end(), in.begin());
  return in;
}

NodeId Graph::leaf(Op op, std::string name, Shape shape, Attr attr) {
  VEERY_CHECK(info(op).group == OpGroup::kLeaf);
  nodes_.push_back({op, shape, inputs({}), attr, std::move(name)});
  return size() - 1;
}

NodeId Graph::add(Op op, const Inputs& in, Attr attr, std::string name) {
  for (NodeId id : in) VEERY_CHECK(id >= kNoNode && id < size());
  const Shape shape = infer_shape(*this, op, in, attr);
  nodes_.push_back({op, shape, in, attr, std::move(name)});
  return size() - 1;
}

DType value_type(const Node& node) {
  const bool index = node.op == Op::kSlot || node.op == Op::kArgmax || node.op == Op::kLinearArgmax;
  return index ? DType::kI32 : DType::kF32;
}

std::vector<bool> needed_for(const Graph& graph, const std::vector<NodeId>& roots) {
  std::vector<bool> needed(static_cast<size_t>(graph.size()), false);
  for (NodeId root : roots) needed[static_cast<size_t>(root)] = true;
  for (NodeId id = graph.size() - 1; id >= 0; --id) {
    if (!needed[static_cast<size_t>(id)]) continue;
    for (NodeId in : graph[id].in)
      if (in != kNoNode) needed[static_cast<size_t>(in)] = true;
  }
  return needed;
}

std::vector<int> use_counts(const Graph& graph, const std::vector<bool>& needed) {
  std::vector<int> counts(static_cast<size_t>(graph.size()), 0);
  for (NodeId id = 0; id < graph.size(); ++id) {
    if (!needed[static_cast<size_t>(id)]) continue;
    for (NodeId in : graph[id].in)
      if (in != kNoNode) ++counts[static_cast<size_t>(in)];
  }
  return counts;
}

void verify(const Graph& graph) {
  for (NodeId id = 0; id < graph.size(); ++id) {
    const Node& node = graph[id];
    const OpInfo& row = info(node.op);
    int count = 0;
    for (NodeId in : node.in) {
      if (in >= id)
        throw Error(ErrorKind::kBug, "graph: node {} ({}) uses node {}, which is not before it", id,
                    row.name, in);
      count += in != kNoNode;
    }
    if (count < row.least || count > row.most)
      throw Error(ErrorKind::kBug, "graph: node {} ({}) has {} inputs, expected {} to {}", id,
                  row.name, count, row.least, row.most);
    if (row.group == OpGroup::kLeaf) continue;
    const Shape expected = infer_shape(graph, node.op, node.in, node.attr);
    if (expected != node.shape)
      throw Error(ErrorKind::kBug, "graph: node {} ({}) is {}, its rule says {}", id, row.name,
                  to_string(node.shape), to_string(expected));
  }
}

double flops(const Graph& graph, const Node& node, const RunSize& size) {
  const auto rows_of = [&](const Shape& shape) {
    return static_cast<double>(shape.rows == kTokenRows    ? size.rows
                               : shape.rows == kOutputRows ? size.outputs
                                                           : shape.rows);
  };
  const double elements = rows_of(node.shape) * static_cast<double>(node.shape.cols);
  switch (node.op) {
    case Op::kLinear:
    case Op::kLinearArgmax: {
      double weights = 0;
      for (size_t i = 3; i < 6; ++i)
        if (node.in[i] != kNoNode)
          weights +=
              static_cast<double>(graph[node.in[i]].shape.rows * graph[node.in[i]].shape.cols);
      return 2 * rows_of(graph[node.in[0]].shape) * weights;
    }
    case Op::kMoe: {
      const double weights = static_cast<double>(graph[node.in[3]].shape.rows) * 2 *
                                 static_cast<double>(graph[node.in[3]].shape.cols) +
                             static_cast<double>(graph[node.in[5]].shape.rows) *
                                 static_cast<double>(graph[node.in[5]].shape.cols);
      const auto& attr = node.as<MoeAttr>();
      return 2 * rows_of(node.shape) * weights * attr.used / attr.experts;
    }
    case Op::kHeadLinear:
      return 2 * rows_of(node.shape) * static_cast<double>(graph[node.in[1]].shape.rows) *
             static_cast<double>(graph[node.in[1]].shape.cols);
    case Op::kRoute: return 4 * elements;
    case Op::kLinearBackX:
    case Op::kLinearBackW: {
      const Shape& dy = graph[node.in[0]].shape;
      const Shape& other = graph[node.in[1]].shape;
      return 2 * rows_of(dy) * static_cast<double>(dy.cols) * static_cast<double>(other.cols);
    }
    case Op::kAttend:
    case Op::kAttendBack: {
      const auto& attr = node.as<AttendAttr>();
      double seen = static_cast<double>(size.context) - (static_cast<double>(size.rows) - 1) / 2;
      if (attr.window > 0) seen = std::min(seen, static_cast<double>(attr.window));
      return 2 * rows_of(graph[node.in[0]].shape) * seen *
             static_cast<double>(graph[node.in[0]].shape.cols + node.shape.cols);
    }
    case Op::kRmsNorm:
    case Op::kLayerNorm: return 4 * elements;
    case Op::kRope:
    case Op::kQkvRope: return 3 * elements;
    case Op::kActivate:
    case Op::kSoftcap: return 10 * elements;
    case Op::kAdd:
    case Op::kMul:
    case Op::kScale: return elements;
    default: return 0;
  }
}

}  // namespace veery
