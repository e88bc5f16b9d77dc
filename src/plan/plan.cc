#include "plan/plan.h"

#include <algorithm>

#include "base/error.h"
#include "plan/emit.h"
#include "plan/fuse.h"
#include "plan/split.h"

namespace veery {

Plan::Plan(const Graph& graph, std::vector<Value> roots, const Binding& binding,
           const PlanOptions& options)
    : options_(options), binding_(binding) {
  VEERY_CHECK(!binding.places.empty());
  find_arenas();
  const Turn turn(arenas_);
  if (binding.places.size() == 1) {
    graph_ = options.fuse ? fuse(graph, roots) : graph;
    for (size_t i = 0; i < roots.size(); ++i) roots_.push_back({{}, false, i});
  } else {
    roots = make_front(graph, roots);
    if (options.fuse) graph_ = fuse(graph_, roots);
  }
  compile(roots);
}

// Recordings are destroyed during a turn, because another thread may run plans on their stream.
Plan::~Plan() {
  const Turn turn(arenas_);
  executable_.reset();
}

void Plan::find_arenas() {
  if (binding_.place().workspace == nullptr) {
    own_ = std::make_unique<Workspace>(binding_.backend().device());
    binding_.places.back().workspace = own_.get();
  }
  for (const PlaceBinding& place : binding_.places)
    if (place.workspace != nullptr) arenas_.push_back(&place.workspace->arena());
  sort_arenas(arenas_);
}

// Makes the plan of all places but the last and keeps the rest of the graph for this plan. Returns
// the roots in that graph.
std::vector<Value> Plan::make_front(const Graph& graph, const std::vector<Value>& roots) {
  SplitGraph parts = split(graph, roots, binding_.place().first_layer);
  Binding binding = binding_;
  binding.places.pop_back();
  PlanOptions options = options_;
  options.first_fetched = SIZE_MAX;
  front_ = std::make_unique<Plan>(parts.front, parts.crossing, binding, options);
  binding_.places.erase(binding_.places.begin(), binding_.places.end() - 1);
  for (size_t i = 0; i < parts.inputs.size(); ++i) {
    const Node& node = parts.front[parts.crossing[i]];
    const ValueType& type = parts.front.type(parts.crossing[i]);
    crossings_.push_back({node.name.empty() ? std::string(node.op->name) : node.name, type});
    received_.emplace(parts.inputs[i], options_.places_only ? row_major(type) : front_->root(i));
  }
  graph_ = std::move(parts.back);
  std::vector<Value> own;
  for (const SplitGraph::Root& root : parts.roots) {
    const bool front = root.crossing >= 0;
    roots_.push_back({{}, front, front ? static_cast<size_t>(root.crossing) : own.size()});
    if (!front) own.push_back(root.value);
  }
  return own;
}

void Plan::compile(const std::vector<Value>& roots) {
  Workspace& workspace = *binding_.place().workspace;
  Emitted emitted = emit(graph_, roots, binding_, received_, options_, workspace);
  if (options_.places_only) return;
  version_ = workspace.arena().version();
  table_ = std::move(emitted.table);
  labels_ = std::move(emitted.labels);
  constants_ = std::move(emitted.constants);
  arena_ = emitted.arena;
  arena_bytes_ = emitted.arena_bytes;
  lower(emitted);
}

void Plan::lower(Emitted& emitted) {
  std::vector<Step> steps;
  for (size_t i = 0; i < table_.size(); ++i) steps.push_back({emitted.ops[i], table_[i]});
  const auto groups =
      binding_.states == nullptr ? 0 : static_cast<int>(binding_.states->groups().size());
  size_t first_fetched = 0;  // of the results of the table
  for (size_t i = 0; i < std::min(options_.first_fetched, roots_.size()); ++i)
    if (!roots_[i].front) ++first_fetched;
  executable_ = binding_.backend().lower(
      steps, emitted.roots,
      {.shape = &binding_.block->shape,
       .groups = groups,
       .rows = options_.rows,
       .outputs = options_.outputs,
       .sequences = groups == 0 ? options_.sequences : 0,
       .exact = options_.exact,
       .first_fetched = options_.first_fetched == SIZE_MAX ? SIZE_MAX : first_fetched,
       .inputs = emitted.inputs,
       .memory = emitted.memory});
  for (Root& root : roots_) {
    root.operand = root.front ? front_->root(root.index) : emitted.roots[root.index];
    if (!root.front)                                                                // read only
      root.operand.data = const_cast<std::byte*>(executable_->result(root.index));  // NOLINT
  }
}

bool Plan::is_current() const {
  return binding_.place().workspace->arena().version() == version_ &&
         (front_ == nullptr || front_->is_current());
}

void Plan::check_current() const {
  if (!is_current())
    throw Error(ErrorKind::kBug, "the memory of a plan of {} rows was replaced", options_.rows);
}

void Plan::run() {
  const Turn turn(arenas_);
  check_current();
  run_places();
}

void Plan::run_places() {
  if (front_) front_->run_places();
  executable_->run(binding_.block->shape);
  check_files();
}

int32_t Plan::chain_steps() {
  const Turn turn(arenas_);
  return front_ != nullptr ? 0 : executable_->chain_steps();
}

void Plan::run_chain(std::span<const ChainRow> rows) {
  const Turn turn(arenas_);
  check_current();
  executable_->run_chain(binding_.block->shape, rows);
}

void Plan::check_files() const { binding_.place().params->check_unchanged(); }

void Plan::fetch(size_t i) {
  if (!roots_[i].front) executable_->fetch(roots_[i].index);
}

void Plan::run_profiled(std::vector<double>& seconds) {
  const Turn turn(arenas_);
  check_current();
  std::vector<double> before, own;
  if (front_) front_->run_profiled(before);
  executable_->run_profiled(binding_.block->shape, own);
  check_files();
  before.insert(before.end(), own.begin(), own.end());
  seconds.resize(before.size(), 0);
  for (size_t i = 0; i < before.size(); ++i) seconds[i] += before[i];
}

DispatchCost cost(const Plan& plan, size_t row, const RunSize& size) {
  const Dispatch& d = plan.table()[row];
  const Label& label = plan.labels()[row];
  const Node& node = plan.graph()[label.node];
  const auto rows_of = [&](int64_t rows) {
    return static_cast<double>(rows == kTokenRows      ? size.rows
                               : rows == kOutputRows   ? size.outputs
                               : rows == kSequenceRows ? size.sequences
                                                       : rows);
  };
  const Cost work = cost_of(plan.graph(), node, size);
  DispatchCost result;
  if (!label.main) return result;  // counted once
  const auto add = [&](const Operand& o) {
    if (!o) return;
    if (o.layout == Layout::kBlocks) {  // read and written once
      result.state_bytes += 2 * size.sequences * static_cast<double>(o.rows * o.cols * 4);
    } else if (in_pages(o)) {
      const bool reads_all = node.op == op::kAttend || node.op == op::kChoosePositions;
      const double positions = reads_all ? static_cast<double>(size.context) : rows_of(kTokenRows);
      result.state_bytes += positions * static_cast<double>(byte_size(o.dtype, o.cols));
    } else if (in_panels(o) || o.rows > 1) {
      result.weight_bytes +=
          label.weight_share * work.weight_share * static_cast<double>(stored_bytes(o));
    } else {
      result.value_bytes += rows_of(o.rows) * o.cols * 4.0;
    }
  };
  for (const Operand& in : d.in) add(in);
  for (const Operand& out : d.outputs) add(out);
  result.flops = work.flops;
  return result;
}

}  // namespace veery
