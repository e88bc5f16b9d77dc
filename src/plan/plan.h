// plan.h: a graph made ready to run: fused, kernels chosen, memory placed, one flat table of
// dispatches.
#pragma once
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "device/memory.h"
#include "graph/graph.h"
#include "kernels/backend.h"
#include "plan/params.h"
#include "plan/run_block.h"
#include "plan/states.h"
#include "plan/workspace.h"

namespace veery {

struct Emitted;

/// What a plan is specialised for; whatever else may change between runs is an input.
struct PlanOptions {
  int64_t rows = 1;       ///< most tokens of a run
  int64_t outputs = 1;    ///< most rows whose output is wanted
  int64_t sequences = 1;  ///< most spans of a run, where values have one row for each
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

/// A value that one place computes and the next one reads.
struct Crossing {
  std::string name;  ///< of its node, or of the op that makes it
  ValueType type;
};

/// What a plan uses in one place (plan/placement.h).
struct PlaceBinding {
  Backend* backend = nullptr;
  const ParamStore* params = nullptr;
  Workspace* workspace = nullptr;  ///< of the backend's device; nullptr: the plan has its own
  int32_t first_layer = 0;         ///< Place::first_layer
};

/// Where the values of one run go to and come from. All of it must outlive the plan.
struct Binding {
  std::vector<PlaceBinding> places;    ///< at least one, in the order of layers
  const StateStore* states = nullptr;  ///< nullptr: a graph without caches
  RunBlock* block = nullptr;           ///< has every input of the graph
  /// Inputs that another plan computes, in the host's memory; nullptr: none.
  const std::map<std::string, Operand>* received = nullptr;

  const PlaceBinding& place() const { return places.back(); }
  Backend& backend() const { return *places.back().backend; }
};

/// The table of the last place, and a plan of all places before it (front()).
class Plan {
 public:
  /// Compiles what `roots` need. Throws kUnsupported, naming op, types and target, where a kernel
  /// is missing.
  Plan(const Graph& graph, std::vector<Value> roots, const Binding& binding,
       const PlanOptions& options);
  Plan(const Plan&) = delete;
  Plan& operator=(const Plan&) = delete;

  /// Runs the places before, if there are any, then the table on the inputs in the binding's block.
  /// On the CPU it does not allocate, lock or look anything up. Throws kIo if a device fails,
  /// FileChanged if weights that are read from their file may have been others.
  void run();
  /// Executable::chain_steps(), chain_draws(), run_chain(), chosen().
  int32_t chain_steps() { return front_ != nullptr ? 0 : executable_->chain_steps(); }
  bool chain_draws() const { return executable_->chain_draws(); }
  void run_chain(std::span<const ChainRow> rows) {
    executable_->run_chain(binding_.block->shape, rows);
  }
  std::span<const int32_t> chosen(int64_t row) const { return executable_->chosen(row); }
  /// As run(), adding the seconds that each row took to `seconds`: one entry for each row of the
  /// tables of all places, in order. On a device the host sees none of the results; throws
  /// kUnsupported where it cannot be timed.
  void run_profiled(std::vector<double>& seconds);

  /// Where root `i` was written, in the host's memory. Valid until the next run of a plan that has
  /// the same workspace.
  const Operand& root(size_t i) const { return roots_[i].operand; }
  /// Brings root `i`, one of those that stay on a device, to where root() says.
  void fetch(size_t i);

  /// The layers of all places before this one; nullptr: there is one place.
  const Plan* front() const { return front_.get(); }
  /// What the front gives the table of this place.
  const std::vector<Crossing>& crossings() const { return crossings_; }
  Backend& backend() const { return binding_.backend(); }
  const std::vector<Dispatch>& table() const { return table_; }
  const std::vector<Label>& labels() const { return labels_; }
  const Graph& graph() const { return graph_; }
  const PlanOptions& options() const { return options_; }
  /// The part of the workspace where values lie, scratch memory of workers apart.
  size_t arena_bytes() const { return arena_bytes_; }
  const std::byte* arena() const { return arena_; }

 private:
  /// A requested root: of the table, or one of the front.
  struct Root {
    Operand operand;
    bool front = false;
    size_t index = 0;  ///< among the results of the table, or the roots of the front
  };

  void compile(const std::vector<Value>& roots);
  std::vector<Value> make_front(const Graph& graph, const std::vector<Value>& roots);
  void lower(Emitted& emitted);
  Workspace& workspace();
  void check_files() const;

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
  std::vector<Dispatch> table_;
  std::vector<Label> labels_;
  std::vector<Root> roots_;
  std::unique_ptr<Executable> executable_;
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
