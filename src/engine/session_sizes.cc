#include "engine/session_sizes.h"

#include <algorithm>

#include "base/error.h"
#include "plan/fuse.h"
#include "plan/plan.h"
#include "plan/run_block.h"

namespace veery {
namespace {

// Buckets are close to each other where few rows have specialised kernels.
constexpr int64_t kBuckets[] = {1, 4, 8, 16, 32, 64, 256, 512, 1024, 2048};

/// Takes the places of plans in workspaces of its own.
class ActivationMeter {
 public:
  ActivationMeter(Model& model, const SessionOptions& options)
      : model_(model),
        // Operands of caches do not depend on how many pages there are.
        states_(model.entry().graph, small_states(model, options)),
        block_(model.entry().graph, static_cast<int32_t>(plan_rows(most_rows(model, options)))),
        workspaces_(model.places().size()),
        most_rows_(plan_rows(most_rows(model, options))),
        most_outputs_(plan_rows(most_outputs(model, options))) {
    for (const std::string& root : options.roots) roots_.push_back(model.entry().root(root));
  }

  ActivationSizes run() {
    for (const Wants wants : {Wants::kBest, Wants::kTop, Wants::kLogits}) {
      const char* const root = wants == Wants::kBest ? "best" : "logits";
      if (!model_.entry().roots.contains(root) || (wants == Wants::kTop && !has_top(model_)))
        continue;
      measure(run_roots(model_, wants, roots_));
    }
    ActivationSizes sizes{.source = source_bytes()};
    for (const Workspace& workspace : workspaces_) sizes.places.push_back(workspace.largest());
    return sizes;
  }

 private:
  static StateOptions small_states(const Model& model, const SessionOptions& options) {
    StateOptions small = state_options(model, options);
    small.context = small.rows = small.sequences = small.kept = 1;
    small.sources = small.positions = small.snapshots = 0;
    return small;
  }

  void measure(RunRoots roots) {
    const bool splits = model_.places().size() > 1, fuses = model_.options().fuse && !splits;
    const Graph* graph = &model_.entry().graph;
    Graph fused;
    if (fuses) graph = &(fused = fuse(*graph, roots.values));
    const Binding binding = binding_of(model_, workspaces_, &states_, &block_);
    std::vector<int64_t> sizes(std::begin(kBuckets), std::end(kBuckets));
    std::erase_if(sizes, [&](int64_t rows) { return rows >= most_rows_; });
    sizes.push_back(most_rows_);
    for (const int64_t rows : sizes) {
      for (const int64_t outputs : {int64_t{1}, std::min(rows, most_outputs_)})
        Plan(*graph, roots.values, binding,
             {.rows = rows,
              .outputs = outputs,
              .exact = model_.options().exact,
              .fuse = model_.options().fuse && splits,
              .first_fetched = roots.first_fetched,
              .places_only = true});
    }
  }

  WorkspaceBytes source_bytes() {
    const SourceConfig& source = model_.config().source;
    if (source.layers == 0 || !model_.runs_on_host()) return {};
    Workspace workspace;
    RunBlock block(model_.entry().graph, source.positions);
    Plan(model_.entry().graph, source_roots(model_), one_place(model_, workspace, block, &states_),
         {.rows = source.positions,
          .exact = model_.options().exact,
          .fuse = model_.options().fuse,
          .places_only = true});
    return workspace.largest();
  }

  Model& model_;
  StateStore states_;
  RunBlock block_;
  std::deque<Workspace> workspaces_;  // of the host, and never touched
  std::vector<Value> roots_;
  int64_t most_rows_, most_outputs_;
};

std::vector<int32_t> first_layers(const Model& model) {
  std::vector<int32_t> layers;
  for (const Place& place : model.places()) layers.push_back(place.first_layer);
  return layers;
}

}  // namespace

int64_t plan_rows(int64_t rows) {
  for (const int64_t size : kBuckets)
    if (rows <= size) return size;
  return rows;
}

int32_t most_rows(const Model& model, const SessionOptions& options) {
  return std::max(model.options().chunk, options.sequences);
}

int32_t most_outputs(const Model& model, const SessionOptions& options) {
  const int32_t rows = most_rows(model, options);
  return options.outputs > 0 ? std::min(options.outputs, rows) : rows;
}

StateOptions state_options(const Model& model, const SessionOptions& options) {
  if (options.sequences < 1)
    throw Error(ErrorKind::kInput, "found {} sequences, expected 1 or more", options.sequences);
  if (options.positions < 0)
    throw Error(ErrorKind::kInput, "caches for {} positions, expected 0 or more",
                options.positions);
  return {.keys = *model.options().cache_keys,
          .values = *model.options().cache_values,
          .context = model.options().context,
          .rows = most_rows(model, options),
          .sequences = options.sequences,
          .sources = options.sources,
          .positions = options.positions,
          .kept = options.kept,
          .snapshots = options.snapshots,
          .first_layers = first_layers(model)};
}

ActivationBytes activation_bytes(const Model& model, const ActivationSizes& sizes) {
  ActivationBytes bytes;
  for (size_t i = 0; i < sizes.places.size(); ++i) bytes.add(model.places()[i], sizes.places[i]);
  bytes.add(model.places().back(), sizes.source);
  return bytes;
}

std::deque<Workspace> make_workspaces(const Model& model) {
  std::deque<Workspace> workspaces;
  for (const Place& place : model.places())
    if (model.options().layout_only)
      workspaces.emplace_back(*place.memory);
    else
      workspaces.emplace_back(model.executor().arena(place.backend->device()));
  return workspaces;
}

std::vector<Arena*> arenas_of(const std::deque<Workspace>& workspaces) {
  std::vector<Arena*> arenas;
  for (const Workspace& workspace : workspaces) arenas.push_back(&workspace.arena());
  sort_arenas(arenas);
  return arenas;
}

std::vector<Device*> memory_of(const Model& model) {
  std::vector<Device*> devices;
  for (const Place& place : model.places()) devices.push_back(place.memory);
  return devices;
}

Binding binding_of(const Model& model, std::deque<Workspace>& workspaces, const StateStore* states,
                   RunBlock* block) {
  Binding binding{.states = states, .block = block};
  for (size_t i = 0; i < model.places().size(); ++i)
    binding.places.push_back({model.places()[i].backend, &model.params(i), &workspaces[i],
                              model.places()[i].first_layer});
  return binding;
}

Binding one_place(const Model& model, Workspace& workspace, RunBlock& block,
                  const StateStore* states) {
  return {
      {{&model.backend(), &model.params(model.places().size() - 1), &workspace}}, states, &block};
}

bool has_top(const Model& model) {
  return !model.backend().runs_on_host() && model.backend().has(op::kTopK) &&
         model.entry().roots.contains("top");
}

size_t wanted_roots(Wants wants) { return wants == Wants::kTop ? 3 : 1; }

RunRoots run_roots(const Model& model, Wants wants, std::span<const Value> further) {
  const Entry& entry = model.entry();
  RunRoots roots;
  roots.values = {entry.root(wants == Wants::kBest  ? "best"
                             : wants == Wants::kTop ? "top"
                                                    : "logits")};
  if (wants == Wants::kTop)
    for (const uint8_t output : {TopKOut::kIndices, TopKOut::kMass})
      roots.values.push_back({roots.values[0].node, output});
  if (wants == Wants::kTop || !further.empty()) roots.first_fetched = roots.values.size();
  roots.values.insert(roots.values.end(), further.begin(), further.end());
  if (wants == Wants::kTop) roots.values.push_back(entry.root("logits"));
  return roots;
}

std::vector<Value> source_roots(const Model& model) {
  std::vector<Value> roots = model.entry().roots_of("source.");
  roots.insert(roots.begin(), model.entry().root("hidden"));
  return roots;
}

ActivationSizes measure_activations(Model& model, const SessionOptions& options) {
  return ActivationMeter(model, options).run();
}

}  // namespace veery
