#include "plan/emit.h"

#include <algorithm>
#include <set>

#include "base/error.h"
#include "plan/offsets.h"

namespace veery {
namespace {

bool is_view(const Node& node) { return node.op->is_view(); }
bool is_leaf(const Node& node) { return node.op->group == OpGroup::kLeaf; }
Value aliased(const Node& node) { return node.in[static_cast<size_t>(node.op->alias)]; }

/// Makes the table in three steps: chooses a kernel for each node, finds the lifetimes of values,
/// and binds addresses.
class Emitter {
 public:
  Emitter(const Graph& graph, const std::vector<Value>& roots, const Binding& binding,
          const ReceivedInputs& received, const PlanOptions& options)
      : graph_(graph),
        roots_(roots),
        binding_(binding),
        backend_(binding.backend()),
        received_(received),
        options_(options),
        needed_(needed_for(graph, roots)),
        used_(needed_.size()),
        values_(needed_.size()),
        step_(needed_.size(), -1),
        place_(needed_.size()),
        is_result_(needed_.size()) {
    for (auto& of_node : place_) of_node.fill(-1);
    for (Value root : roots_) at(used_, root) = at(is_result_, owner(root)) = true;
    for (NodeId id = 0; id < graph_.size(); ++id)
      for (Value in : graph_[id].in)
        if (in && needed_[index(id)]) at(used_, in) = true;
  }

  Emitted run(Workspace& workspace) {
    for (NodeId id = 0; id < graph_.size(); ++id)
      if (needed_[index(id)]) describe(id);
    for (NodeId id = 0; id < graph_.size(); ++id)
      if (needed_[index(id)] && !is_leaf(graph_[id]) && !is_view(graph_[id])) choose(id);
    check_updates();
    lifetimes();
    const ValueOffsets layout = assign_offsets(lifetimes_);
    // Padding, so that two workers never write to the same cache line.
    const size_t stride = aligned(scratch_) + kAlignment;
    const auto workers = static_cast<size_t>(backend_.workers());
    const size_t arena_bytes = aligned(layout.bytes);
    std::byte* arena = workspace.values(arena_bytes + stride * workers);
    std::byte* results = workspace.results(result_bytes_ + view_slack());
    if (options_.places_only) return {};
    Memory constants = write_constants();
    bind(arena, layout, results);
    Emitted result = finish();
    result.constants = std::move(constants);
    result.arena = arena;
    result.arena_bytes = layout.bytes;
    if (workers > 0)
      result.memory = {
          {arena, layout.bytes}, {results, result_bytes_}, arena + arena_bytes, stride};
    return result;
  }

 private:
  struct Step {
    NodeId node;
    Op op;      ///< has the kernel
    Inputs in;  ///< of `op`
    Kernel kernel;
    Dispatch dispatch;
    int work = -1;  ///< index of its lifetime
  };

  struct Result {
    Value value;  ///< owns its memory
    size_t offset;
  };

  // One entry for each output of each node.
  template <typename T>
  using OfValues = std::vector<std::array<T, kMaxOutputs>>;

  static size_t index(NodeId id) { return static_cast<size_t>(id); }
  template <typename T>
  static T& at(OfValues<T>& all, Value value) {
    return all[index(value.node)][value.output];
  }
  template <typename T>
  static const T& at(const OfValues<T>& all, Value value) {
    return all[index(value.node)][value.output];
  }
  int64_t most_rows(int64_t rows) const {
    return rows == kTokenRows      ? options_.rows
           : rows == kOutputRows   ? options_.outputs
           : rows == kSequenceRows ? options_.sequences
                                   : rows;
  }

  // Describes the operands of a node; those in the arena get their addresses later.
  void describe(NodeId id) {
    const Node& node = graph_[id];
    if (node.op == op::kParam) {
      at(values_, id) = binding_.place().params->at(node.name);
    } else if (node.op == op::kState) {
      VEERY_CHECK(binding_.states != nullptr);
      at(values_, id) = binding_.states->at(node.name);
    } else if (node.op == op::kVariable) {
      VEERY_CHECK(binding_.place().variables != nullptr);
      at(values_, id) = binding_.place().variables->at(node.name);
    } else if (node.op == op::kInput) {
      at(values_, id) = describe_input(node);
    } else if (node.op->alias >= 0) {
      at(values_, id) = at(values_, aliased(node));
      if (is_view(node)) at(values_, id).cols = static_cast<int32_t>(node.shape().cols());
    } else {
      for (int i = 0; i < node.outputs.count; ++i) describe_made({id, i});
    }
  }

  // A device gets a copy of an input in contiguous rows; RunInput names the original.
  Operand describe_input(const Node& node) {
    const auto received = received_.find(node.name);
    const Operand host =
        received != received_.end() ? received->second : binding_.block->operand(node.name);
    if (backend_.runs_on_host()) return host;
    Operand value = row_major(node.outputs.types[0]);
    value.input = static_cast<int16_t>(inputs_.size());
    inputs_.push_back({host, node.as<InputAttr>().advance});
    return value;
  }

  // Describes an output of a kernel. Optional ones that nothing uses stay absent.
  void describe_made(Value value) {
    if (graph_[value].op->is_optional_output(value.output) && !at(used_, value)) return;
    Operand& operand = at(values_, value) = row_major(graph_.type(value));
    if (operand.cols > 1)
      operand.stride = static_cast<int64_t>(aligned(static_cast<size_t>(operand.stride)));
    if (graph_[value].op == op::kData) return;
    const auto bytes = static_cast<size_t>(operand.stride * most_rows(operand.rows));
    if (at(is_result_, value)) {  // outlives the run
      results_.push_back({value, result_bytes_});
      result_bytes_ += aligned(bytes);
      return;
    }
    at(place_, value) = static_cast<int>(lifetimes_.size());
    lifetimes_.push_back({0, 0, bytes});
  }

  void fill_operands(Step& step) const {
    step.dispatch.outputs = values_[index(step.node)];
    for (size_t i = 0; i < step.in.size(); ++i)
      if (step.in[i]) step.dispatch.in[i] = at(values_, step.in[i]);
  }

  void choose(NodeId id) {
    const Node node = kernel_form(graph_[id]);
    Step step{id, node.op, node.in, {}, {}, -1};
    step.dispatch.attr = node.attr;
    fill_operands(step);
    const int64_t rows = most_rows(step.dispatch.in[0].rows);
    step.kernel = backend_.choose(step.op, step.dispatch, {.rows = rows, .exact = options_.exact});
    const RunExtent run{rows, options_.sequences, std::max(backend_.workers(), 1)};
    const int at = static_cast<int>(steps_.size());
    if (step.kernel.work != nullptr) {
      step.work = static_cast<int>(lifetimes_.size());
      lifetimes_.push_back({at, at, step.kernel.work(step.dispatch, run)});
    }
    if (step.kernel.scratch != nullptr)
      scratch_ = std::max(scratch_, step.kernel.scratch(step.dispatch, run));
    step_[index(id)] = at;
    steps_.push_back(step);
  }

  // Updates happen in place, so a step after an update cannot read the value before it.
  void check_updates() const {
    std::set<std::string_view> updated;
    for (const Step& step : steps_) {
      const Node& node = graph_[step.node];
      for (Value in : node.in)
        if (in && graph_[owner(in)].op == op::kVariable && updated.contains(graph_[owner(in)].name))
          throw Error(ErrorKind::kInput,
                      "{}: reads variable {} after its update; it has to read the result of that",
                      node.op->name, graph_[owner(in)].name);
      for (size_t i = 0; i < node.in.size(); ++i) {
        if ((node.op->writes >> i & 1U) == 0 || !node.in[i]) continue;
        const Node& leaf = graph_[written_leaf(node.in[i])];
        if (!op::is_mutable(leaf.op))
          throw Error(ErrorKind::kInput, "{}: writes {} {}, which is no state and no variable",
                      node.op->name, leaf.op->name, leaf.name);
        if (leaf.op == op::kVariable) updated.insert(leaf.name);
      }
    }
  }
  // Returns the value whose memory an op writes.
  Value written_leaf(Value value) const {
    while (graph_[value].op->alias >= 0) value = aliased(graph_[value]);
    return value;
  }

  // Returns the value that owns the memory of a view.
  Value owner(Value value) const {
    while (is_view(graph_[value])) value = aliased(graph_[value]);
    return value;
  }

  void extend(Value value, int step) {
    const int lifetime = at(place_, owner(value));
    if (lifetime >= 0) {
      Lifetime& life = lifetimes_[static_cast<size_t>(lifetime)];
      life.last = std::max(life.last, step);
    }
  }

  // A device copies a view with the stride of its owner, and thus up to a row past the owner's end.
  size_t view_slack() const {
    int64_t slack = 0;
    for (Value root : roots_)
      if (is_view(graph_[root])) slack = std::max(slack, at(values_, root).stride);
    return static_cast<size_t>(slack);
  }

  // A backend that fuses step i with the next one reads the inputs of step i while it writes the
  // outputs of the next step.
  bool may_fuse_with_next(int i) const {
    const auto step = static_cast<size_t>(i);
    return step + 1 < steps_.size() &&
           backend_.may_fuse(steps_[step].op, steps_[step + 1].op, most_rows(kTokenRows));
  }

  void lifetimes() {
    const int end = static_cast<int>(steps_.size());
    for (NodeId id = 0; id < graph_.size(); ++id)
      for (int lifetime : place_[index(id)])
        if (lifetime >= 0) {
          Lifetime& life = lifetimes_[static_cast<size_t>(lifetime)];
          life.first = life.last = step_[index(id)];
        }
    for (int i = 0; i < end; ++i)
      for (Value in : graph_[steps_[static_cast<size_t>(i)].node].in)
        if (in) extend(in, may_fuse_with_next(i) ? i + 1 : i);
  }

  // Returns the address of a column; for an input of a device its offset.
  static std::byte* columns_of(const Operand& value, int64_t begin) {
    return reinterpret_cast<std::byte*>(reinterpret_cast<uintptr_t>(value.data) +
                                        byte_size(value.dtype, begin));
  }

  void bind(std::byte* base, const ValueOffsets& layout, std::byte* results) {
    for (const Result& result : results_) at(values_, result.value).data = results + result.offset;
    for (NodeId id = 0; id < graph_.size(); ++id) {
      if (!needed_[index(id)]) continue;
      const Node& node = graph_[id];
      for (int i = 0; i < node.outputs.count; ++i)
        if (const int lifetime = at(place_, {id, i}); lifetime >= 0)
          at(values_, {id, i}).data = base + layout.offsets[static_cast<size_t>(lifetime)];
      if (is_view(node))
        at(values_, id).data = columns_of(at(values_, aliased(node)), node.as<ColumnsAttr>().begin);
    }
    for (Step& step : steps_) {
      fill_operands(step);
      if (step.work >= 0)
        step.dispatch.work = base + layout.offsets[static_cast<size_t>(step.work)];
    }
  }

  // Constants are written once, so they have memory of their own that runs do not overwrite.
  Memory write_constants() {
    size_t bytes = 0;
    const auto constant = [&](NodeId id) {
      return needed_[index(id)] && graph_[id].op == op::kData;
    };
    const auto bytes_of = [](const Operand& value) {
      return aligned(static_cast<size_t>(value.rows * value.stride));
    };
    for (NodeId id = 0; id < graph_.size(); ++id)
      if (constant(id)) bytes += bytes_of(at(values_, id));
    if (bytes == 0) return {};
    Memory memory = backend_.device().allocate(bytes);
    std::byte* next = memory.data();
    for (NodeId id = 0; id < graph_.size(); ++id) {
      if (!constant(id)) continue;
      Operand& value = at(values_, id);
      value.data = next;
      next += bytes_of(value);
      const size_t row = byte_size(value.dtype, value.cols);
      for (int64_t r = 0; r < value.rows; ++r)
        backend_.device().upload(value.row<std::byte>(r),
                                 graph_[id].data->data() + static_cast<size_t>(r) * row, row);
    }
    return memory;
  }

  // Text for `veery plan`: the names of the step's weights, or of its node if it has none.
  std::string detail(const Node& node) const {
    std::string text;
    for (Value in : node.in)
      if (in && graph_[in].op == op::kParam && graph_.shape(in).rows() != Dim(1))
        text += (text.empty() ? "" : " | ") + graph_[in].name;
    return text.empty() ? node.name : text;
  }

  Emitted finish() {
    Emitted result;
    for (Step& step : steps_) {
      for (size_t phase = 0; phase < step.kernel.phases.size(); ++phase) {
        if (step.kernel.phases[phase] == nullptr) continue;
        step.dispatch.run = step.kernel.phases[phase];
        result.table.push_back(step.dispatch);
        const Node& node = graph_[step.node];
        result.ops.push_back(step.op);
        const auto index = static_cast<int>(phase);
        result.labels.push_back({node.op->name, step.kernel.name, detail(node), step.node, index,
                                 index == step.kernel.main_phase, step.kernel.weight_share});
      }
    }
    for (Value root : roots_) result.roots.push_back(at(values_, root));
    result.inputs = std::move(inputs_);
    return result;
  }

  const Graph& graph_;
  const std::vector<Value>& roots_;
  const Binding& binding_;
  Backend& backend_;
  const ReceivedInputs& received_;
  const PlanOptions& options_;
  std::vector<bool> needed_;
  OfValues<bool> used_;
  OfValues<Operand> values_;
  std::vector<int> step_;  ///< [node] index of its step; -1: none
  OfValues<int> place_;    ///< index in lifetimes_; -1: outside the arena
  OfValues<bool> is_result_;
  std::vector<Result> results_;
  size_t result_bytes_ = 0;
  std::vector<Lifetime> lifetimes_;
  std::vector<Step> steps_;
  std::vector<RunInput> inputs_;
  size_t scratch_ = 0;
};

}  // namespace

Emitted emit(const Graph& graph, const std::vector<Value>& roots, const Binding& binding,
             const ReceivedInputs& received, const PlanOptions& options, Workspace& workspace) {
  return Emitter(graph, roots, binding, received, options).run(workspace);
}

}  // namespace veery
