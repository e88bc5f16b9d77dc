// plan.h: a graph made ready to run: fused, kernels chosen, memory placed, one flat table of
// dispatches.
#pragma once
#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/thread_pool.h"
#include "device/memory.h"
#include "graph/graph.h"
#include "kernels/backend.h"
#include "plan/params.h"
#include "plan/run_block.h"
#include "plan/states.h"
#include "plan/workspace.h"

namespace veery {

/// What a plan is specialised for; whatever else may change between runs is an input.
struct PlanOptions {
  int64_t rows = 1;       ///< most tokens of a run
  int64_t outputs = 1;    ///< most rows whose output is wanted
  int64_t sequences = 1;  ///< most spans of a run, where values have one row for each
  Target target = Target::kReference;
  bool exact = false;
  bool fuse = true;
  /// Roots from this one on stay on a device until fetch().
  size_t first_fetched = SIZE_MAX;
  /// Only reserves the plan's part of the workspace, to measure it. Such a plan cannot be run.
  bool places_only = false;
};

/// What a dispatch is called; parallel to the table, not touched by run().
struct Label {
  std::string_view op;
  std::string_view kernel;
  std::string detail;  ///< weight or node name
  NodeId node = kNoNode;
  int phase = 0;
  bool main = true;        ///< does most of the work of its node
  float weight_share = 1;  ///< of the bytes of its weights, what it reads at least
};

/// Where the first layers run, if that is another place than the backend: on the CPU.
struct FrontBinding {
  const ParamStore* params = nullptr;
  Workspace* workspace = nullptr;  ///< of the host
  int32_t layers = 0;              ///< how many
};

/// A value of the first layers that the others are given.
struct Crossing {
  std::string name;  ///< of its node, or of the op that makes it
  ValueType type;
};

/// Where the values of one run go to and come from. All of it must outlive the plan.
struct Binding {
  const ParamStore* params = nullptr;
  const StateStore* states = nullptr;  ///< nullptr: a graph without caches
  RunBlock* block = nullptr;               ///< has every input of the graph
  ThreadPool* pool = nullptr;
  Backend* backend = nullptr;           ///< nullptr: the CPU. Else that of params and states
  Workspace* workspace = nullptr;       ///< of the backend's device; nullptr: the plan has its own
  const FrontBinding* front = nullptr;  ///< nullptr: all layers are in one place
  /// Inputs that another plan computes, in the host's memory; nullptr: none.
  const std::map<std::string, Operand>* received = nullptr;
};

class Plan {
 public:
  /// Compiles what `roots` need. Throws kUnsupported, naming op, types and target, where a kernel
  /// is missing.
  Plan(const Graph& graph, std::vector<Value> roots, const Binding& binding,
       const PlanOptions& options);
  Plan(const Plan&) = delete;
  Plan& operator=(const Plan&) = delete;

  /// Runs the front, if there is one, then the table on the inputs in the binding's block. Does not
  /// allocate, lock or look anything up. Throws kIo if a device fails, FileChanged if weights that
  /// are read from their file may have been others.
  void run();
  /// Executable::chain_steps(), chain_draws(), run_chain(), chosen().
  int32_t chain_steps() { return executable_ == nullptr ? 0 : executable_->chain_steps(); }
  bool chain_draws() const { return executable_ != nullptr && executable_->chain_draws(); }
  void run_chain(std::span<const ChainRow> rows) {
    executable_->run_chain(binding_.block->slots, rows);
  }
  std::span<const int32_t> chosen(int64_t row) const { return executable_->chosen(row); }
  /// As run(), adding the seconds that each row of the table took to `seconds` (one entry a row).
  /// On a device the host sees none of the results; throws kUnsupported where it cannot be timed.
  /// `front`: gets those of the front's rows, nothing without a front.
  void run_profiled(std::vector<double>& seconds, std::vector<double>* front = nullptr);

  /// Where root `i` was written, in the host's memory. Valid until the next run of a plan that has
  /// the same workspace.
  const Operand& root(size_t i) const { return roots_[i]; }
  /// Brings root `i`, one of those that stay on a device, to where root() says.
  void fetch(size_t i);

  /// The first layers, where they run on the CPU and the others elsewhere; nullptr: all are here.
  const Plan* front() const { return front_.get(); }
  const std::vector<Crossing>& crossings() const { return crossings_; }
  /// Of the backend, where first layers run elsewhere.
  const std::vector<Dispatch>& table() const { return table_; }
  const std::vector<Label>& labels() const { return labels_; }
  const Graph& graph() const { return graph_; }
  const PlanOptions& options() const { return options_; }
  /// The part of the workspace where values lie, scratch memory of workers apart.
  size_t arena_bytes() const { return arena_bytes_; }
  const std::byte* arena() const { return arena_; }

 private:
  void compile(const std::vector<Value>& roots);
  void make_front(const Graph& graph, std::vector<Value>& roots);
  void lower(const std::vector<Op>& ops, std::span<const RunInput> inputs);
  Workspace& workspace();
  void start_run() noexcept;
  void check_files() const;
  Worker worker(int index) noexcept;  // for the first row of the table

  Graph graph_;
  PlanOptions options_;
  Binding binding_;
  std::unique_ptr<Plan> front_;
  std::vector<Crossing> crossings_;  ///< the roots of the front
  std::map<std::string, Operand> received_;
  Memory constants_;
  std::unique_ptr<Workspace> own_;  ///< where the binding has none
  std::byte* arena_ = nullptr;
  size_t arena_bytes_ = 0;
  std::byte* scratch_ = nullptr;
  size_t scratch_stride_ = 0;
  std::vector<std::atomic<int32_t>> taken_;  // [row of the table][worker], see Worker
  std::vector<Dispatch> table_;
  std::vector<Label> labels_;
  std::vector<Operand> roots_;
  std::unique_ptr<Executable> executable_;  ///< of a device; nullptr: run() walks through the table
};

/// One row of `veery plan`: what a dispatch reads and writes, and the work it does.
struct DispatchCost {
  double weight_bytes = 0;  ///< read once a run
  double state_bytes = 0;   ///< of caches, read or written
  double value_bytes = 0;   ///< of activations, read and written
  double flops = 0;
  double bytes() const { return weight_bytes + state_bytes + value_bytes; }
};
DispatchCost cost(const Plan& plan, size_t row, const RunSize& size);

}  // namespace veery
