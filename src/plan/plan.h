// plan.h: a graph compiled to a flat table of dispatches: fused, with kernels and memory.
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
#include "plan/variables.h"
#include "plan/workspace.h"

namespace veery {

struct Emitted;
/// Inputs of a graph that the places before compute: their rows in the host's memory, by name.
using ReceivedInputs = std::map<std::string, Operand>;

/// The sizes and options that a plan is compiled for. Everything else that changes between runs is
/// an input.
struct PlanOptions {
  int64_t rows = 1;       ///< most tokens of a run
  int64_t outputs = 1;    ///< most output rows of a run
  int64_t sequences = 1;  ///< most spans of a run, for values with one row per span
  bool exact = false;
  bool fuse = true;
  /// Roots from this index on stay on a device until fetch().
  size_t first_fetched = SIZE_MAX;
  /// Only reserves the plan's part of the workspace, to measure it. Such a plan cannot be run.
  bool places_only = false;
};

/// The description of a dispatch, in an array parallel to the table; not used by run().
struct Label {
  std::string_view op;
  std::string_view kernel;
  std::string detail;  ///< weight or node name
  NodeId node = kNoNode;
  int phase = 0;
  bool main = true;        ///< does most of the work of its node
  float weight_share = 1;  ///< Kernel::weight_share
};

/// A value that one place computes and the next one reads.
struct Crossing {
  std::string name;  ///< name of its node, or of its op
  ValueType type;
};

/// The backend, weights and workspace that a plan uses in one place (plan/placement.h).
struct PlaceBinding {
  Backend* backend = nullptr;
  const ParamStore* params = nullptr;
  /// On the backend's device. Plans of one device that several threads use must share its arena.
  /// nullptr: the plan has its own.
  Workspace* workspace = nullptr;
  int32_t first_layer = 0;                   ///< Place::first_layer
  const VariableStore* variables = nullptr;  ///< nullptr: a graph without variables
};

/// The memory that a plan reads and writes. All of it must outlive the plan.
struct Binding {
  std::vector<PlaceBinding> places;    ///< at least one, in the order of layers
  const StateStore* states = nullptr;  ///< nullptr: a graph without caches
  RunBlock* block = nullptr;           ///< has every input of the graph

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
  ~Plan();

  /// Runs the earlier places, if there are any, then the table, on the inputs in the binding's
  /// block. Takes the turn on the arenas of all places once; besides that, a run on the CPU does
  /// not allocate, lock or look anything up. Throws kIo if a device fails, FileChanged if a file
  /// whose weights are read in place has changed, kBug unless is_current().
  void run();
  /// Whether the arenas are those that the plan was made with. If not, it has to be made again. The
  /// answer is only constant during a turn.
  bool is_current() const;
  /// Executable::chain_steps(), chain_draws(), run_chain(), chosen(). Chains run as run() does.
  int32_t chain_steps();
  bool chain_draws() const { return executable_->chain_draws(); }
  void run_chain(std::span<const ChainRow> rows);
  std::span<const int32_t> chosen(int64_t row) const { return executable_->chosen(row); }
  /// As run(); also adds the seconds of each row to `seconds`, which has one entry for each row of
  /// the tables of all places, in order. Results on a device are not copied to the host. Throws
  /// kUnsupported if the device cannot time rows.
  void run_profiled(std::vector<double>& seconds);

  /// Returns root `i` in the host's memory. It is valid until the next run of a plan with the same
  /// workspace, whatever other workspaces do with the arena.
  const Operand& root(size_t i) const { return roots_[i].operand; }
  /// Copies root `i`, one of those that stay on a device, to the memory of root(i). Needs no turn.
  void fetch(size_t i);

  /// The layers of all places before this one; nullptr: there is one place.
  const Plan* front() const { return front_.get(); }
  /// The values that the front computes for the table of this place.
  const std::vector<Crossing>& crossings() const { return crossings_; }
  Backend& backend() const { return binding_.backend(); }
  const std::vector<Dispatch>& table() const { return table_; }
  const std::vector<Label>& labels() const { return labels_; }
  const Graph& graph() const { return graph_; }
  const PlanOptions& options() const { return options_; }
  /// The part of the arena that holds values, without the scratch memory of workers.
  size_t arena_bytes() const { return arena_bytes_; }
  const std::byte* arena() const { return arena_; }

 private:
  /// A requested root, computed by the table or by the front.
  struct Root {
    Operand operand;
    bool front = false;
    size_t index = 0;  ///< among the results of the table, or the roots of the front
  };

  void find_arenas();
  void compile(const std::vector<Value>& roots);
  void run_places();
  void check_current() const;
  std::vector<Value> make_front(const Graph& graph, const std::vector<Value>& roots);
  void lower(Emitted& emitted);
  void check_files() const;

  Graph graph_;
  PlanOptions options_;
  Binding binding_;
  std::unique_ptr<Plan> front_;
  std::vector<Crossing> crossings_;  ///< the roots of the front
  ReceivedInputs received_;
  Memory constants_;                ///< the elements of op::kData
  std::unique_ptr<Workspace> own_;  ///< used if the binding has none
  std::vector<Arena*> arenas_;      ///< of all places, sorted by address
  uint64_t version_ = 0;            ///< Arena::version() of this place
  std::byte* arena_ = nullptr;
  size_t arena_bytes_ = 0;
  std::vector<Dispatch> table_;
  std::vector<Label> labels_;
  std::vector<Root> roots_;
  std::unique_ptr<Executable> executable_;
};

/// One row of `veery plan`: the bytes that a dispatch reads and writes, and its operations.
struct DispatchCost {
  double weight_bytes = 0;  ///< read once per run
  double state_bytes = 0;   ///< of caches, read or written
  double value_bytes = 0;   ///< of activations, read and written
  double flops = 0;
  double bytes() const { return weight_bytes + state_bytes + value_bytes; }
};
DispatchCost cost(const Plan& plan, size_t row, const RunSize& size);

}  // namespace veery
