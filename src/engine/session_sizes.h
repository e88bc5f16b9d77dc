// session_sizes.h: options and sizes of a Session: rows and outputs of its runs, caches,
// activations.
#pragma once
#include <cstddef>
#include <cstdint>
#include <deque>
#include <string>
#include <vector>

#include "engine/activation_bytes.h"
#include "engine/model.h"
#include "plan/plan.h"
#include "plan/states.h"

namespace veery {

/// Bytes of the workspaces of a session: of each place of the model, including the scratch memory
/// of the workers, and of an encoder that the decoder attends to.
struct ActivationSizes {
  std::vector<WorkspaceBytes> places;
  WorkspaceBytes source;
};
ActivationBytes activation_bytes(const Model& model, const ActivationSizes& sizes);

struct SessionOptions {
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
  /// Roots of the entry that parts may request (RunPart::roots), for measure_activations(). Others
  /// can be requested too; their memory is not reserved.
  std::vector<std::string> roots = {};
  int32_t outputs = 0;  ///< the most outputs of a run; 0: one for each token
  /// Memory for activations to reserve at construction (measure_activations()); zeros: plans
  /// allocate it when they are made.
  ActivationSizes activations = {};
};

/// The result that a part of a run wants for each of its outputs:
/// - kBest: only the most probable token. Uses the pruned head, and writes no logits unless another
///   part of the run wants more.
/// - kTop: the most probable tokens. All logits stay on the device until Session::logits().
/// - kLogits: all logits, on the host.
enum class Wants : uint8_t { kBest, kTop, kLogits };

/// The row bucket of a run: the smallest number of rows >= `rows` that plans are made for.
int64_t plan_rows(int64_t rows);
/// The most tokens and the most outputs of one run.
int32_t most_rows(const Model& model, const SessionOptions& options);
int32_t most_outputs(const Model& model, const SessionOptions& options);
/// Throws kInput for options out of range.
StateOptions state_options(const Model& model, const SessionOptions& options);
/// Whether Wants::kTop is computed on the model's device.
bool has_top(const Model& model);

/// The roots that a plan computes. Those from index `first_fetched` on stay on the device until
/// Plan::fetch().
struct RunRoots {
  std::vector<Value> values;
  size_t first_fetched = SIZE_MAX;
};
/// Number of roots of Wants: the further roots of a plan follow them.
size_t wanted_roots(Wants wants);
/// The roots of plans for `wants` and `further` roots, in this order; then, with Wants::kTop, the
/// logits.
RunRoots run_roots(const Model& model, Wants wants, std::span<const Value> further);
/// The workspaces of a user of the model's plans, one for each place, on the arenas of its
/// executor. A model without values of weights (LoadOptions::layout_only) has arenas of its own,
/// which are never touched.
std::deque<Workspace> make_workspaces(const Model& model);
/// The arenas of the workspaces, for Turn.
std::vector<Arena*> arenas_of(const std::deque<Workspace>& workspaces);
/// The device of each place, which holds its caches and activations.
std::vector<Device*> memory_of(const Model& model);
/// Binds plans to the places of a model. `workspaces`: of each place. `states` may be nullptr.
Binding binding_of(const Model& model, std::deque<Workspace>& workspaces, const StateStore* states,
                   RunBlock* block);
/// Binds plans to the last place of a model alone. `states` may be nullptr.
Binding one_place(const Model& model, Workspace& workspace, RunBlock& block,
                  const StateStore* states = nullptr);
/// The roots of the plan of an encoder that the decoder attends to.
std::vector<Value> source_roots(const Model& model);

/// Returns the sizes that suffice for every plan of a Session with these options. Makes plans of
/// all sizes without memory for activations, and reads no weights.
ActivationSizes measure_activations(Model& model, const SessionOptions& options);

}  // namespace veery
