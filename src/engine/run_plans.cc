#include "engine/run_plans.h"

#include <algorithm>

#include "base/error.h"
#include "plan/fuse.h"

namespace veery {

RootId RunPlans::root(const std::string& name) {
  const auto known = std::ranges::find(names_, name);
  if (known != names_.end()) return static_cast<RootId>(known - names_.begin());
  const auto found = model_.entry().roots.find(name);
  if (found == model_.entry().roots.end())
    throw Error(ErrorKind::kInput, "{}: the entry '{}' has no root '{}'", model_.path(),
                model_.entry().name, name);
  names_.push_back(name);
  values_.push_back(found->second);
  return static_cast<RootId>(names_.size() - 1);
}

int32_t RunPlans::set_of(std::span<const RootId> roots) {
  const auto known = std::ranges::find_if(
      sets_, [&](const std::vector<RootId>& set) { return std::ranges::equal(set, roots); });
  if (known != sets_.end()) return static_cast<int32_t>(known - sets_.begin());
  for (const RootId root : roots) VEERY_CHECK(static_cast<size_t>(root) < values_.size());
  sets_.emplace_back(roots.begin(), roots.end());
  return static_cast<int32_t>(sets_.size() - 1);
}

int32_t RunPlans::joined(int32_t set, std::span<const RootId> roots) {
  if (set == 0) return set_of(roots);
  const std::vector<RootId>& own = sets_[static_cast<size_t>(set)];
  if (std::ranges::equal(own, roots)) return set;
  std::vector<RootId> all = own;
  for (const RootId root : roots)
    if (std::ranges::find(all, root) == all.end()) all.push_back(root);
  return set_of(all);
}

int32_t RunPlans::find(const Key& key, RootId root) const {
  const std::vector<RootId>& set = sets_[static_cast<size_t>(key.set)];
  const auto found = std::ranges::find(set, root);
  if (found == set.end()) return -1;
  return static_cast<int32_t>(wanted_roots(key.wants)) + static_cast<int32_t>(found - set.begin());
}

Plan& RunPlans::find_or_make(const Key& key) {
  Slot& slot = plans_[key];
  if (slot.plan && slot.plan->is_current()) return *slot.plan;
  std::unique_ptr<Plan> plan = make(key);
  replaced_ = std::move(slot.plan);
  slot.plan = std::move(plan);
  slot.masked = slot.chained = false;
  ++made_;
  return *slot.plan;
}

std::optional<int32_t> RunPlans::known_chain_steps(const Key& key) const {
  const auto found = plans_.find(key);
  return found == plans_.end() ? std::nullopt : found->second.chain_steps;
}

int32_t RunPlans::find_chain_steps(const Key& key) {
  Plan& plan = find_or_make(key);
  const bool draws = key.wants == Wants::kTop;
  const int32_t steps = draws && !plan.chain_draws() ? 0 : plan.chain_steps();
  plans_[key].chain_steps = steps;
  return steps;
}

// Throws kBug if the roots depend on an input that nothing writes: it would stay zero.
void RunPlans::check_inputs(const std::vector<Value>& roots) const {
  const Graph& graph = model_.entry().graph;
  const std::vector<bool> needed = needed_for(graph, roots);
  for (NodeId id = 0; id < graph.size(); ++id)
    if (needed[static_cast<size_t>(id)] && graph[id].op == op::kInput &&
        !block_.is_taken(graph[id].name))
      throw Error(ErrorKind::kBug, "session: nothing writes input {} of {} columns", graph[id].name,
                  graph[id].shape().cols());
}

const RunPlans::Fused& RunPlans::fused(const std::vector<Value>& roots) {
  const auto known = std::ranges::find(fused_, roots, &Fused::of);
  if (known != fused_.end()) return *known;
  Fused made{roots, roots, {}};
  made.graph = fuse(model_.entry().graph, made.roots);
  return fused_.emplace_back(std::move(made));
}

std::unique_ptr<Plan> RunPlans::make(const Key& key) {
  std::vector<Value> further;
  for (const RootId root : sets_[static_cast<size_t>(key.set)])
    further.push_back(values_[static_cast<size_t>(root)]);
  RunRoots roots = run_roots(model_, key.wants, further);
  check_inputs(roots.values);
  // With several places the plan splits the graph first and fuses each part.
  const bool splits = model_.places().size() > 1, fuses = model_.options().fuse && !splits;
  const PlanOptions options{.rows = key.rows,
                            .outputs = key.outputs,
                            .exact = model_.options().exact,
                            .fuse = model_.options().fuse && splits,
                            .first_fetched = roots.first_fetched};
  const Graph* graph = &model_.entry().graph;
  if (fuses) {
    const Fused& made = fused(roots.values);
    graph = &made.graph;
    roots.values = made.roots;
  }
  return std::make_unique<Plan>(*graph, std::move(roots.values),
                                binding_of(model_, workspaces_, &states_, &block_), options);
}

}  // namespace veery
