#include "plan/split.h"

#include <algorithm>
#include <charconv>

#include "base/error.h"
#include "graph/ops/ops.h"

namespace veery {
namespace {

bool is_leaf(const Node& node) { return node.op->group == OpGroup::kLeaf; }

/// Copies the nodes of a graph into the front and the back.
class Splitter {
 public:
  Splitter(const Graph& graph, const std::vector<Value>& roots, int32_t first)
      : graph_(graph),
        first_(first),
        needed_(needed_for(graph, roots)),
        is_back_(needed_.size()),
        to_front_(needed_.size()),
        to_back_(needed_.size()) {
    for (NodeId id = 0; id < graph.size(); ++id) is_back_[index(id)] = belongs_to_back(graph[id]);
  }

  SplitGraph run(const std::vector<Value>& roots) {
    for (NodeId id = 0; id < graph_.size(); ++id)
      if (needed_[index(id)] && is_back_[index(id)] && !is_leaf(graph_[id])) copy_to_back(id);
    for (Value root : roots)
      result_.roots.push_back(is_back_[index(root.node)]
                                  ? SplitGraph::Root{mapped(to_back_, root)}
                                  : SplitGraph::Root{{}, static_cast<int>(find_crossing(root))});
    return std::move(result_);
  }

 private:
  static size_t index(NodeId id) { return static_cast<size_t>(id); }
  static Value mapped(const std::vector<Value>& map, Value value) {
    const Value to = map[index(value.node)];
    return value.output == 0 ? to : Value(to.node, value.output);
  }

  bool belongs_to_back(const Node& node) const {
    if (is_leaf(node)) return layer_of(node.name) >= first_;
    for (Value in : node.in)
      if (in && is_back_[index(in.node)]) return true;
    return false;
  }

  Value copied_leaf(NodeId id, Graph& to, std::vector<Value>& map) const {
    if (!map[index(id)]) map[index(id)] = to.copy_leaf(graph_[id]);
    return map[index(id)];
  }

  void copy_to_back(NodeId id) {
    const Node& node = graph_[id];
    Inputs in;
    for (size_t i = 0; i < node.in.size(); ++i)
      if (node.in[i]) in[i] = in_back(node.in[i]);
    to_back_[index(id)] = result_.back.add(node.op, in, node.attr, node.name);
  }
  // Returns the value of the back for an input of one of its nodes.
  Value in_back(Value value) {
    const bool shared = !op::is_mutable(graph_[value].op);  // others are in one place only
    if (is_leaf(graph_[value]) && (shared || is_back_[index(value.node)]))
      return copied_leaf(value.node, result_.back, to_back_);
    if (is_back_[index(value.node)]) return mapped(to_back_, value);
    return crossed(value);
  }

  // Returns the state or variable that a value of the front is a view or an update of; -1 if none.
  NodeId state_of(Value value) const {
    while (!is_leaf(graph_[value]) && graph_[value].op->alias >= 0)
      value = graph_[value].in[static_cast<size_t>(graph_[value].op->alias)];
    return op::is_mutable(graph_[value].op) ? value.node : kNoNode;
  }
  // Returns the index of a value of the front in SplitGraph::crossing, and adds it if needed.
  size_t find_crossing(Value value) {
    const auto known = std::ranges::find(crossing_, value);
    if (known != crossing_.end()) return static_cast<size_t>(known - crossing_.begin());
    crossing_.push_back(value);
    result_.crossing.push_back(in_front(value));
    result_.inputs.push_back(fmt::format("front.{}.{}", value.node, value.output));
    crossed_.emplace_back();
    return crossing_.size() - 1;
  }
  Value crossed(Value value) {
    if (const NodeId state = state_of(value); state != kNoNode)
      throw Error(ErrorKind::kUnsupported,
                  "layers from {} on read the {} {} of a layer before them: both have to be on the "
                  "same side",
                  first_, graph_[state].op == op::kState ? "cache" : "variable",
                  graph_[state].name);
    const ValueType& type = graph_.type(value);
    if (type.shape.rows().code() > 1)
      throw Error(ErrorKind::kUnsupported,
                  "layers from {} on take '{}' ({}) of a layer before them: both have to be on the "
                  "same side",
                  first_, graph_[value].name, graph_[value].op->name);
    const size_t i = find_crossing(value);
    if (!crossed_[i])
      crossed_[i] = result_.back.leaf(op::kInput, result_.inputs[i], type.shape,
                                      InputAttr{.dtype = type.dtype});
    return crossed_[i];
  }
  // Copies a value to the front with everything that it depends on.
  Value in_front(Value value) {
    const std::vector<bool> needed = needed_for(graph_, {value});
    for (NodeId id = 0; id <= value.node; ++id) {
      if (!needed[index(id)] || to_front_[index(id)]) continue;
      const Node& node = graph_[id];
      if (is_leaf(node)) {
        copied_leaf(id, result_.front, to_front_);
        continue;
      }
      Inputs in;
      for (size_t i = 0; i < node.in.size(); ++i)
        if (node.in[i]) in[i] = mapped(to_front_, node.in[i]);
      to_front_[index(id)] = result_.front.add(node.op, in, node.attr, node.name);
    }
    return mapped(to_front_, value);
  }

  const Graph& graph_;
  int32_t first_;
  std::vector<bool> needed_, is_back_;
  std::vector<Value> to_front_, to_back_;  ///< [node] copy of its first output
  std::vector<Value> crossing_, crossed_;  ///< values of the graph, and their inputs in the back
  SplitGraph result_;
};

}  // namespace

int32_t layer_of(std::string_view name) {
  constexpr std::string_view kPrefix = "blk.";
  if (!name.starts_with(kPrefix)) return -1;
  int32_t layer = -1;
  std::from_chars(name.data() + kPrefix.size(), name.data() + name.size(), layer);
  return layer;
}

SplitGraph split(const Graph& graph, const std::vector<Value>& roots, int32_t first) {
  return Splitter(graph, roots, first).run(roots);
}

}  // namespace veery
