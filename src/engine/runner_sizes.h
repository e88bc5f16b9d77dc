// runner_sizes.h: options and sizes of a Runner: rows and outputs of its runs, caches, activations.
#pragma once
#include <cstddef>
#include <cstdint>
#include <deque>
#include <numeric>
#include <string>
#include <vector>

#include "engine/model.h"
#include "plan/plan.h"
#include "plan/states.h"

namespace veery {

/// Bytes of the workspaces of each place of the model and of an encoder that the decoder attends
/// to, including the scratch memory of the workers.
struct ActivationBytes {
  std::vector<size_t> places;
  size_t source = 0;
  size_t total() const { return std::reduce(places.begin(), places.end(), source); }
};

struct RunnerOptions {
  int32_t sequences = 1;  ///< the most open sequences
  int32_t sources = 0;    ///< StateOptions::sources
  /// Positions of all sequences together that the caches have memory for; 0: enough for every
  /// sequence to fill its context.
  int32_t positions = 0;
  /// Snapshots of all sequences together; used by models with recurrent layers or sliding windows.
  int32_t snapshots = 8;
  int32_t snapshot_every = 512;  ///< the least tokens between snapshots of runs; 0: save() only
  /// Number of recent positions, including the current one, whose recurrent states each sequence
  /// keeps, 1 or more: rewind() can go to these without a snapshot.
  int32_t kept = 1;
  int64_t features = 0;  ///< columns of the entry's input "features"; 0: it has none
  /// Another root of the entry that runs compute beside the logits (Runner::also()); empty: none.
  std::string also = {};
  int32_t outputs = 0;  ///< the most outputs of a run; 0: one for each token
  /// Memory for activations to reserve at construction (measure_activations()); zeros: plans
  /// allocate it when they are made.
  ActivationBytes activations = {};
};

/// The result that a part of a run wants for each of its outputs:
/// - kBest: only the most probable token. Uses the pruned head, and writes no logits unless another
///   part of the run wants more.
/// - kTop: the most probable tokens. All logits stay on the device until Runner::logits().
/// - kLogits: all logits, on the host.
enum class Wants : uint8_t { kBest, kTop, kLogits };

/// The row bucket of a run: the smallest number of rows >= `rows` that plans are made for.
int64_t plan_rows(int64_t rows);
/// The most tokens and the most outputs of one run.
int32_t most_rows(const Model& model, const RunnerOptions& options);
int32_t most_outputs(const Model& model, const RunnerOptions& options);
/// Throws kInput for options out of range.
StateOptions state_options(const Model& model, const RunnerOptions& options);
/// Whether Wants::kTop is computed on the model's device.
bool has_top(const Model& model);

/// The roots that a plan computes. Those from index `first_fetched` on stay on the device until
/// Plan::fetch().
struct RunRoots {
  std::vector<Value> values;
  size_t first_fetched = SIZE_MAX;
};
/// The device of each place, which holds its caches and activations.
std::vector<Device*> memory_of(const Model& model);
/// Binds plans to the places of a model. `workspaces`: of each place. `states` may be nullptr.
Binding binding_of(const Model& model, std::deque<Workspace>& workspaces, const StateStore* states,
                   RunBlock* block);
/// Binds the plan of an encoder that the decoder attends to, for models on the CPU.
Binding source_binding(const Model& model, const StateStore& states, RunBlock& block,
                       Workspace& workspace);
/// The roots of plans for `wants`; `also`: RunnerOptions::also.
RunRoots run_roots(const Model& model, Wants wants, const std::string& also);
/// The roots of the plan of an encoder that the decoder attends to.
std::vector<Value> source_roots(const Model& model);

/// Returns the workspace sizes that suffice for every plan of a Runner with these options. Makes
/// plans of all sizes without memory for activations, and reads no weights.
ActivationBytes measure_activations(Model& model, const RunnerOptions& options);

}  // namespace veery
