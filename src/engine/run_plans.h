// run_plans.h: the plans of a session, made when first needed.
#pragma once
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "engine/session_sizes.h"
#include "plan/plan.h"
#include "plan/run_block.h"
#include "plan/states.h"

namespace veery {

/// A root of the model's entry, interned by Session::root().
enum class RootId : int32_t {};

/// Interns roots, and sets of them, and keeps one plan for each size and set. Whoever calls
/// find_or_make() or find_chain_steps() holds the turn on the arenas of the workspaces. Model,
/// workspaces, states and block must outlive it.
class RunPlans {
 public:
  struct Key {
    int64_t rows, outputs;  ///< row buckets
    Wants wants;
    int32_t set;  ///< of set_of()
    auto operator<=>(const Key&) const = default;
  };

  RunPlans(const Model& model, std::deque<Workspace>& workspaces, const StateStore& states,
           RunBlock& block)
      : model_(model), workspaces_(workspaces), states_(states), block_(block) {}

  /// Throws kInput if the entry has no root of this name.
  RootId root(const std::string& name);
  /// Returns the number of a set of roots; 0: the empty one.
  int32_t set_of(std::span<const RootId> roots);
  /// Returns the number of the union of two sets.
  int32_t joined(int32_t set, std::span<const RootId> roots);
  /// Returns the index of a root among the roots of a plan; -1: the plan does not compute it.
  int32_t find(const Key& key, RootId root) const;
  /// Returns the index of the logits, which Wants::kTop leaves on the device.
  size_t logits(const Key& key) const {
    return key.wants == Wants::kTop
               ? wanted_roots(key.wants) + sets_[static_cast<size_t>(key.set)].size()
               : 0;
  }

  /// Returns the plan, which is valid until the next call. The plan of the call before stays valid
  /// too, with its results.
  Plan& find_or_make(const Key& key);
  /// The most tokens of a chain, Plan::chain_steps(); 0: none, or the rows of this key cannot draw.
  /// nullopt if not determined yet: find_chain_steps() determines it and needs the turn.
  std::optional<int32_t> known_chain_steps(const Key& key) const;
  int32_t find_chain_steps(const Key& key);
  /// Counts the first use of a plan with masks, or as a chain, as another plan.
  void count_masked(const Key& key) { count(plans_[key].masked); }
  void count_chained(const Key& key) { count(plans_[key].chained); }
  /// Number of plans made so far.
  size_t made() const { return made_; }

 private:
  struct Slot {
    std::unique_ptr<Plan> plan;
    bool masked = false, chained = false;
    std::optional<int32_t> chain_steps;
  };
  /// The fused graph for some roots, shared by plans of all sizes: fusion is the slowest part of
  /// making a plan.
  struct Fused {
    std::vector<Value> of, roots;
    Graph graph;
  };

  void count(bool& used) {
    if (!used) ++made_;
    used = true;
  }
  void check_inputs(const std::vector<Value>& roots) const;
  const Fused& fused(const std::vector<Value>& roots);
  std::unique_ptr<Plan> make(const Key& key);

  const Model& model_;
  std::deque<Workspace>& workspaces_;
  const StateStore& states_;
  RunBlock& block_;
  std::vector<std::string> names_;  ///< by RootId
  std::vector<Value> values_;       ///< by RootId
  std::vector<std::vector<RootId>> sets_ = {{}};
  std::deque<Fused> fused_;
  std::map<Key, Slot> plans_;
  std::unique_ptr<Plan> replaced_;  ///< by the last call; its results may still be read
  size_t made_ = 0;
};

}  // namespace veery
