#include "plan/plan.h"

#include <algorithm>
#include <cstring>

#include "base/clock.h"
#include "base/error.h"
#include "plan/emit.h"
#include "plan/fuse.h"
#include "plan/split.h"

namespace veery {

Plan::Plan(const Graph& graph, std::vector<Value> roots, const Binding& binding,
           const PlanOptions& options)
    : options_(options), binding_(binding) {
  if (binding.front == nullptr) {
    graph_ = options.fuse ? fuse(graph, roots) : graph;
  } else {
    make_front(graph, roots);
    if (options.fuse) graph_ = fuse(graph_, roots);
  }
  compile(roots);
}

// Layers of the front as a plan of the CPU, and the rest as the graph of this one.
void Plan::make_front(const Graph& graph, std::vector<Value>& roots) {
  const FrontBinding& front = *binding_.front;
  SplitGraph parts = split(graph, roots, front.layers);
  Binding binding = binding_;
  binding.params = front.params;
  binding.workspace = front.workspace;
  binding.backend = nullptr;
  binding.front = nullptr;
  PlanOptions options = options_;
  options.first_fetched = SIZE_MAX;
  front_ = std::make_unique<Plan>(parts.front, parts.crossing, binding, options);
  for (size_t i = 0; i < parts.inputs.size(); ++i) {
    const Node& node = parts.front[parts.crossing[i]];
    crossings_.push_back({node.name.empty() ? std::string(node.op->name) : node.name,
                          parts.front.type(parts.crossing[i])});
    received_.emplace(parts.inputs[i], options_.places_only
                                           ? row_major(parts.front.type(parts.crossing[i]))
                                           : front_->root(i));
  }
  binding_.received = &received_;
  graph_ = std::move(parts.back);
  roots = std::move(parts.roots);
}

void Plan::compile(const std::vector<Value>& roots) {
  const Binding& binding = binding_;
  Emitted emitted = emit(graph_, roots, binding, options_, workspace());
  if (options_.places_only) return;
  table_ = std::move(emitted.table);
  labels_ = std::move(emitted.labels);
  roots_ = std::move(emitted.roots);
  constants_ = std::move(emitted.constants);
  arena_ = emitted.arena;
  arena_bytes_ = emitted.arena_bytes;
  scratch_ = emitted.scratch;
  scratch_stride_ = emitted.scratch_stride;
  if (binding.backend != nullptr) {
    lower(emitted.ops, emitted.inputs);
    return;
  }
  taken_ =
      std::vector<std::atomic<int32_t>>(table_.size() * static_cast<size_t>(binding.pool->size()));
}

Workspace& Plan::workspace() {
  if (binding_.workspace != nullptr) return *binding_.workspace;
  own_ = std::make_unique<Workspace>(binding_.backend != nullptr ? &binding_.backend->device()
                                                                 : nullptr);
  return *own_;
}

void Plan::lower(const std::vector<Op>& ops, std::span<const RunInput> inputs) {
  std::vector<Step> steps;
  for (size_t i = 0; i < table_.size(); ++i) steps.push_back({ops[i], table_[i]});
  const auto groups =
      binding_.states == nullptr ? 0 : static_cast<int>(binding_.states->groups().size());
  executable_ = binding_.backend->lower(
      steps, roots_,
      {&binding_.block->slots, groups, options_.rows, options_.outputs,
       groups == 0 ? options_.sequences : 0, options_.exact, options_.first_fetched, inputs});
  for (size_t i = 0; i < roots_.size(); ++i)                          // read only
    roots_[i].data = const_cast<std::byte*>(executable_->result(i));  // NOLINT
}

void Plan::start_run() noexcept {
#ifndef NDEBUG
  // Another plan may have left anything there: what is read before it is written shows as NaN.
  std::memset(arena_, 0xff, arena_bytes_);
#endif
  for (std::atomic<int32_t>& count : taken_) count.store(0, std::memory_order_relaxed);
}

Worker Plan::worker(int index) noexcept {
  return {index, binding_.pool->size(), scratch_ + scratch_stride_ * static_cast<size_t>(index),
          taken_.data()};
}

void Plan::run() {
  if (front_) front_->run();
  const Slots& slots = binding_.block->slots;
  if (executable_ != nullptr) return executable_->run(slots);
  SpinBarrier& barrier = binding_.pool->barrier();
  start_run();
  binding_.pool->run([&](int index) {
    Worker worker = this->worker(index);
    for (const Dispatch& dispatch : table_) {
      dispatch.run(dispatch, slots, worker);
      worker.taken += worker.count;
      barrier.wait();
    }
  });
  check_files();
}

void Plan::check_files() const {
  if (binding_.params != nullptr) binding_.params->check_unchanged();
}

void Plan::fetch(size_t i) {
  if (executable_ != nullptr) executable_->fetch(i);
}

void Plan::run_profiled(std::vector<double>& seconds, std::vector<double>* front) {
  if (front_ && front != nullptr) {
    std::vector<double> once;
    front_->run_profiled(once);
    front->resize(once.size(), 0);
    for (size_t i = 0; i < once.size(); ++i) (*front)[i] += once[i];
  } else if (front_) {
    front_->run();
  }
  const Slots& slots = binding_.block->slots;
  if (executable_ != nullptr) return executable_->run_profiled(slots, seconds);
  seconds.resize(table_.size(), 0);
  SpinBarrier& barrier = binding_.pool->barrier();
  start_run();
  binding_.pool->run([&](int index) {
    Worker worker = this->worker(index);
    double last = seconds_now();
    for (size_t i = 0; i < table_.size(); ++i) {
      table_[i].run(table_[i], slots, worker);
      worker.taken += worker.count;
      barrier.wait();
      if (index != 0) continue;
      const double now = seconds_now();
      seconds[i] += now - last;
      last = now;
    }
  });
  check_files();
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
