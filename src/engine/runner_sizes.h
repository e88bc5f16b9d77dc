// runner_sizes.h: the sizes that a Runner has: rows and outputs of its runs, options of its caches,
// memory for activations.
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

/// Bytes of workspaces, scratch memory of workers included: of each place of the model, and of an
/// encoder that the decoder attends to.
struct ActivationBytes {
  std::vector<size_t> places;
  size_t source = 0;
  size_t total() const { return std::reduce(places.begin(), places.end(), source); }
};

struct RunnerOptions {
  int32_t sequences = 1;  ///< most at a time
  int32_t sources = 0;    ///< StateOptions::sources
  /// Positions that the caches of all sequences together have memory for; 0: each may fill its
  /// context.
  int32_t positions = 0;
  /// Snapshots of all sequences together, where there are layers that cannot be cut anywhere.
  int32_t snapshots = 8;
  int32_t snapshot_every = 512;  ///< a snapshot is made behind about so many tokens; 0: by save()
  /// Positions whose states recurrent layers keep of each sequence, 1 or more: rewind() can go to
  /// the last so many, the current one among them, without a snapshot.
  int32_t kept = 1;
  int64_t features = 0;  ///< columns of the entry's input "features"; 0: it has none
  /// Another root of the entry that runs give beside logits; empty: none.
  std::string also = {};
  int32_t outputs = 0;  ///< the most outputs of a run; 0: as many as it has tokens
  /// Memory to reserve for activations at once (measure_activations()); zeros: plans take it when
  /// they are made.
  ActivationBytes activations = {};
};

/// Of an output: the most probable token alone, for which a head is searched and no logits are
/// written where nothing else in the run wants them; the most probable ones, where all logits stay
/// on the model's device until somebody asks for them; or all logits.
enum class Wants : uint8_t { kBest, kTop, kLogits };

/// Plans are made for certain numbers of rows: the smallest of them that holds so many.
int64_t plan_rows(int64_t rows);
/// Tokens and outputs of one run, at most.
int32_t most_rows(const Model& model, const RunnerOptions& options);
int32_t most_outputs(const Model& model, const RunnerOptions& options);
/// Throws kInput for options out of range.
StateOptions state_options(const Model& model, const RunnerOptions& options);
/// Whether Wants::kTop is computed on the model's device.
bool has_top(const Model& model);

/// What a plan for `wants` computes, and which of it stays on a device until it is fetched.
struct RunRoots {
  std::vector<Value> values;
  size_t first_fetched = SIZE_MAX;
};
/// The devices that have the caches and activations of each place.
std::vector<Device*> memory_of(const Model& model);
/// Binds plans to the places of a model. `workspaces`: of each place. `states` may be nullptr.
Binding binding_of(const Model& model, std::deque<Workspace>& workspaces, const StateStore* states,
                   RunBlock* block);
/// Binds the plan of an encoder that the decoder attends to, for models on the CPU.
Binding source_binding(const Model& model, const StateStore& states, RunBlock& block,
                       Workspace& workspace);
RunRoots run_roots(const Model& model, Wants wants, const std::string& also);
/// What the plan of an encoder computes that the decoder attends to.
std::vector<Value> source_roots(const Model& model);

/// The workspace that holds any plan of a Runner with these options. Compiles plans of all sizes up
/// to their kernels; takes no memory and reads no weight.
ActivationBytes measure_activations(Model& model, const RunnerOptions& options);

}  // namespace veery
