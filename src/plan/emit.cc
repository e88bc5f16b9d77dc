#include "plan/emit.h"

#include <algorithm>
#include <limits>

#include "base/error.h"
#include "plan/place.h"

namespace veery {
namespace {

bool is_view(const Node& node) { return node.op == Op::kColumns; }
bool is_leaf(const Node& node) { return info(node.op).group == OpGroup::kLeaf; }

/// Makes the table in three steps: choose a kernel for each node, find out how long values live,
/// bind.
class Emitter {
 public:
  Emitter(const Graph& graph, const std::vector<NodeId>& roots, const Binding& binding,
          const PlanOptions& options)
      : graph_(graph),
        roots_(roots),
        binding_(binding),
        options_(options),
        needed_(needed_for(graph, roots)),
        values_(needed_.size()),
        step_(needed_.size(), -1),
        place_(needed_.size(), -1) {}

  Emitted run(Memory& arena) {
    for (NodeId id = 0; id < graph_.size(); ++id)
      if (needed_[index(id)]) describe(id);
    for (NodeId id = 0; id < graph_.size(); ++id)
      if (needed_[index(id)] && !is_leaf(graph_[id]) && !is_view(graph_[id])) choose(id);
    lifetimes();
    const Placement placement = place(lifetimes_);
    arena = Memory(placement.bytes, true);
    bind(arena.data(), placement);
    return finish(placement.bytes);
  }

 private:
  struct Step {
    NodeId node;
    Kernel kernel;
    Dispatch dispatch;
    int work = -1;  ///< index of its lifetime
    int state = -1;
  };

  static size_t index(NodeId id) { return static_cast<size_t>(id); }
  int64_t most_rows(int64_t rows) const {
    return rows == kTokenRows ? options_.rows : rows == kOutputRows ? options_.outputs : rows;
  }

  // The operand of a node, all but the address of what will lie in the arena.
  void describe(NodeId id) {
    const Node& node = graph_[id];
    Operand& value = values_[index(id)];
    switch (node.op) {
      case Op::kParam: value = binding_.params->at(node.name); return;
      case Op::kState:
        VEERY_CHECK(binding_.states != nullptr);
        value = binding_.states->at(node.name);
        return;
      case Op::kCacheWrite: value = values_[index(node.in[1])]; return;
      case Op::kColumns:
        value = values_[index(node.in[0])];
        value.cols = static_cast<int32_t>(node.shape.cols);
        return;
      default: break;
    }
    value.rows = node.shape.rows;
    value.cols = static_cast<int32_t>(node.shape.cols);
    value.dtype = value_type(node);
    value.layout = Layout::kRowMajor;
    value.stride = node.shape.cols * 4;
    if (node.op == Op::kSlot) {
      value.data = reinterpret_cast<std::byte*>(binding_.slots->find(node.name));
      if (value.data == nullptr)
        throw Error(ErrorKind::kBug, "plan: there is no slot {}", node.name);
      return;
    }
    if (node.shape.cols > 1)
      value.stride = static_cast<int64_t>(aligned(static_cast<size_t>(value.stride)));
    place_[index(id)] = static_cast<int>(lifetimes_.size());
    lifetimes_.push_back({0, 0, static_cast<size_t>(value.stride * most_rows(node.shape.rows))});
  }

  void choose(NodeId id) {
    const Node& node = graph_[id];
    Step step{id, {}, {}, -1};
    step.dispatch.attr = node.attr;
    step.dispatch.out = values_[index(id)];
    for (size_t i = 0; i < node.in.size(); ++i)
      if (node.in[i] != kNoNode) step.dispatch.in[i] = values_[index(node.in[i])];
    const int64_t rows = most_rows(step.dispatch.in[0].rows);
    step.kernel = choose_kernel(node.op, step.dispatch,
                                {.target = options_.target, .rows = rows, .exact = options_.exact});
    const int workers = binding_.pool->size();
    const int at = static_cast<int>(steps_.size());
    if (step.kernel.work != nullptr) {
      step.work = static_cast<int>(lifetimes_.size());
      lifetimes_.push_back({at, at, step.kernel.work(step.dispatch, rows, workers)});
    }
    if (step.kernel.state > 0) {
      step.state = static_cast<int>(lifetimes_.size());
      lifetimes_.push_back({0, std::numeric_limits<int>::max(), step.kernel.state});
    }
    if (step.kernel.scratch != nullptr)
      scratch_ = std::max(scratch_, step.kernel.scratch(step.dispatch, rows, workers));
    step_[index(id)] = at;
    steps_.push_back(step);
  }

  // Follows views to the value that owns the memory.
  NodeId owner(NodeId id) const {
    while (is_view(graph_[id])) id = graph_[id].in[0];
    return id;
  }

  void extend(NodeId id, int step) {
    const int lifetime = place_[index(owner(id))];
    if (lifetime >= 0) {
      Lifetime& life = lifetimes_[static_cast<size_t>(lifetime)];
      life.last = std::max(life.last, step);
    }
  }

  void lifetimes() {
    const int end = static_cast<int>(steps_.size());
    for (NodeId id = 0; id < graph_.size(); ++id) {
      if (!needed_[index(id)] || place_[index(id)] < 0) continue;
      // A constant has no step of its own: it is written when the plan is made and stays.
      const bool constant = graph_[id].op == Op::kConstant;
      Lifetime& life = lifetimes_[static_cast<size_t>(place_[index(id)])];
      life.first = constant ? 0 : step_[index(id)];
      life.last = constant ? end : life.first;
    }
    for (const Step& step : steps_)
      for (NodeId in : graph_[step.node].in)
        if (in != kNoNode) extend(in, step_[index(step.node)]);
    for (NodeId root : roots_) extend(root, end);
  }

  void bind(std::byte* base, const Placement& placement) {
    for (NodeId id = 0; id < graph_.size(); ++id) {
      if (!needed_[index(id)]) continue;
      Operand& value = values_[index(id)];
      if (place_[index(id)] >= 0)
        value.data = base + placement.offsets[static_cast<size_t>(place_[index(id)])];
      else if (is_view(graph_[id]))
        value.data = values_[index(graph_[id].in[0])].data + graph_[id].as<ColumnsAttr>().begin * 4;
      if (graph_[id].op == Op::kConstant) fill_constant(graph_[id], value);
    }
    for (Step& step : steps_) {
      const Node& node = graph_[step.node];
      step.dispatch.out = values_[index(step.node)];
      for (size_t i = 0; i < node.in.size(); ++i)
        if (node.in[i] != kNoNode) step.dispatch.in[i] = values_[index(node.in[i])];
      if (step.work >= 0)
        step.dispatch.work = base + placement.offsets[static_cast<size_t>(step.work)];
      if (step.state >= 0)
        step.dispatch.state = base + placement.offsets[static_cast<size_t>(step.state)];
    }
  }

  static void fill_constant(const Node& node, const Operand& value) {
    for (int64_t r = 0; r < value.rows; ++r)
      std::fill_n(value.row<float>(r), value.cols, node.as<ScaleAttr>().factor);
  }

  // What the step works on, for people: the names of its weights, or its own.
  std::string detail(const Node& node) const {
    std::string text;
    for (NodeId in : node.in)
      if (in != kNoNode && graph_[in].op == Op::kParam && graph_[in].shape.rows > 1)
        text += (text.empty() ? "" : " | ") + graph_[in].name;
    return text.empty() ? node.name : text;
  }

  Emitted finish(size_t arena_bytes) {
    Emitted result;
    for (Step& step : steps_) {
      for (size_t phase = 0; phase < step.kernel.phases.size(); ++phase) {
        if (step.kernel.phases[phase] == nullptr) continue;
        step.dispatch.run = step.kernel.phases[phase];
        result.table.push_back(step.dispatch);
        const Node& node = graph_[step.node];
        const auto index = static_cast<int>(phase);
        result.labels.push_back({info(node.op).name, step.kernel.name, detail(node), step.node,
                                 index, index == step.kernel.main_phase});
      }
    }
    for (NodeId root : roots_) result.roots.push_back(values_[index(root)]);
    result.arena_bytes = arena_bytes;
    result.scratch_bytes = aligned(scratch_);
    return result;
  }

  const Graph& graph_;
  const std::vector<NodeId>& roots_;
  const Binding& binding_;
  const PlanOptions& options_;
  std::vector<bool> needed_;
  std::vector<Operand> values_;
  std::vector<int> step_;   ///< of a node; -1: it has none
  std::vector<int> place_;  ///< index of its lifetime; -1: it lies outside of the arena
  std::vector<Lifetime> lifetimes_;
  std::vector<Step> steps_;
  size_t scratch_ = 0;
};

}  // namespace

Emitted emit(const Graph& graph, const std::vector<NodeId>& roots, const Binding& binding,
             const PlanOptions& options, Memory& arena) {
  return Emitter(graph, roots, binding, options).run(arena);
}

}  // namespace veery
