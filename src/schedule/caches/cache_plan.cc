#include "schedule/caches/cache_plan.h"

#include <algorithm>
#include <optional>

namespace veery {
namespace {

// The logits of many outputs would take more memory than all other activations.
constexpr int32_t kMostOutputs = 64;
// The recurrent states for undoing drafts take at most 1/8 of the memory of the caches.
constexpr size_t kStatesShare = 8;

/// Tries to fit a number of slots into the budget.
class Division {
 public:
  Division(const ScheduledModels& models, const CacheOptions& options, int32_t slots)
      : model_(models.model), options_(options), slots_(slots) {
    usual_.slots = slots;
    usual_.kept = std::max(options.kept, 1);
    session_.outputs = std::max(kMostOutputs, slots);
    session_.roots = models.roots;
    session_.sequences = slots + usual_.kept;
    session_.activations = measure_activations(model_, session_);
    fixed_.activations = activation_bytes(model_, session_.activations);
    if (models.draft != nullptr) add_drafts(models);
    states_ = undone_states(allowed(options.cache_bytes));
    if (options.at_least_one) cache_bytes_ = std::max(cache_bytes_, least().caches);
    cache_bytes_ = allowed(cache_bytes_);
  }

  std::optional<CachePlan> fit() const {
    for (int32_t turn = 0;; ++turn) {
      const CachePlan plan = candidate(turn);
      if (const int32_t positions = positions_for(plan, is_least(plan)); positions > 0)
        return finished(plan, positions);
      if (is_least(plan)) return {};
    }
  }

  /// Returns what one sequence of the whole context needs at least.
  SchedulerBytes least() const { return finished(candidate(kLastTurn), least_positions()).bytes; }

 private:
  static constexpr int32_t kLastTurn = 30;  // after this many halvings all are 1

  void add_drafts(const ScheduledModels& models) {
    Model& draft = *models.draft;
    SessionOptions& session = usual_.draft_session;
    session = models.draft_options(slots_);
    session.activations = measure_activations(draft, session);
    fixed_.caches = StateLayout(draft.entry().graph, state_options(draft, session)).bytes();
    fixed_.add_activations(model_, draft, activation_bytes(draft, session.activations));
    fixed_.drafts = draft.weight_bytes();
  }

  // Limits bytes of caches to what memory_bytes leaves besides weights and activations.
  size_t allowed(size_t wanted) const {
    if (options_.memory_bytes == 0) return wanted;
    const size_t others = model_.weight_bytes() + fixed_.activations.total() + fixed_.drafts;
    return std::min(wanted, options_.memory_bytes - std::min(options_.memory_bytes, others));
  }

  int32_t undone_states(size_t caches) const {
    const size_t state = state_bytes(model_.config()) * static_cast<size_t>(slots_);
    if (state == 0) return 1;
    const auto most = static_cast<size_t>(options_.draft_tokens) + 1;
    return static_cast<int32_t>(std::clamp<size_t>(caches / kStatesShare / state, 1, most));
  }

  // Each turn halves the cached prefixes and snapshots; once they are at their least, the states
  // for undoing drafts.
  CachePlan candidate(int32_t turn) const {
    int32_t halvings = 0;
    while ((usual_.kept >> halvings) > 1 || (snapshots() >> halvings) > 2) ++halvings;
    CachePlan plan = usual_;
    plan.kept = std::max(usual_.kept >> turn, 1);
    plan.session = session_;
    plan.session.sequences = slots_ + plan.kept;
    plan.session.snapshots = std::max(snapshots() >> turn, 2);
    plan.session.kept = std::max(states_ >> std::max(turn - halvings, 0), 1);
    return plan;
  }
  static bool is_least(const CachePlan& plan) {
    return plan.kept == 1 && plan.session.snapshots == 2 && plan.session.kept == 1;
  }
  int32_t snapshots() const { return 2 * slots_ + 8; }

  size_t cache_bytes_of(const CachePlan& plan, int32_t positions) const {
    return layout(plan, positions).bytes() + fixed_.caches;
  }
  StateLayout layout(const CachePlan& plan, int32_t positions) const {
    SessionOptions session = plan.session;
    session.positions = positions;
    return {model_.entry().graph, state_options(model_, session)};
  }

  // One whole context, and two pages for copy-on-write by forks.
  int32_t least_positions() const {
    return std::min(model_.options().context, INT32_MAX / 2 - 2 * kPagePositions) +
           2 * kPagePositions;
  }
  int32_t wanted_positions() const {
    if (options_.positions > 0) return options_.positions;
    const int64_t all = int64_t{slots_} * model_.options().context;
    return static_cast<int32_t>(
        std::min<int64_t>(std::max<int64_t>(all, least_positions()), INT32_MAX / 2));
  }

  // Returns the positions that fit; 0: too few. `any`: accept a single context.
  int32_t positions_for(const CachePlan& plan, bool any) const {
    const int32_t most = wanted_positions();
    if (cache_bytes_of(plan, most) <= cache_bytes_) return most;
    if (options_.positions > 0) return 0;
    const int32_t least = least_positions();
    const StateLayout smallest = layout(plan, least);
    const size_t page = smallest.growing_page_bytes();
    if (page == 0 || smallest.bytes() + fixed_.caches > cache_bytes_) return 0;
    const size_t pages = (cache_bytes_ - smallest.bytes() - fixed_.caches) / page;
    int64_t found = (least + kPagePositions - 1) / kPagePositions + static_cast<int64_t>(pages);
    found = std::min<int64_t>(found * kPagePositions, most);
    while (found > least && cache_bytes_of(plan, static_cast<int32_t>(found)) > cache_bytes_)
      found = std::max<int64_t>(found - kPagePositions, least);  // layouts are aligned
    const bool enough = any || found >= std::max(least, most / 4);
    return enough ? static_cast<int32_t>(found) : 0;
  }

  CachePlan finished(CachePlan plan, int32_t positions) const {
    plan.session.positions = positions;
    plan.bytes = fixed_;
    plan.bytes.caches = cache_bytes_of(plan, positions);
    return plan;
  }

  Model& model_;
  const CacheOptions& options_;
  int32_t slots_, states_ = 1;
  CachePlan usual_;
  SessionOptions session_;
  SchedulerBytes fixed_;
  size_t cache_bytes_ = options_.cache_bytes;
};

CachesTooSmall refusal(const Model& model, const CacheOptions& options, const SchedulerBytes& least,
                       int32_t slots) {
  const size_t weights = model.weight_bytes(), all = weights + least.total();
  const std::string what =
      fmt::format("a context of {} positions with {} slots", model.options().context, slots);
  if (options.memory_bytes > 0 && all > options.memory_bytes)
    return {ErrorKind::kLimit,
            "{} needs {} bytes of memory (weights {}, caches {}, activations {}, drafts {}), the "
            "limit is {}",
            what,
            all,
            weights,
            least.caches,
            least.activations.total(),
            least.drafts,
            options.memory_bytes};
  return {ErrorKind::kLimit, "{} needs {} bytes of caches, the limit is {}", what, least.caches,
          options.cache_bytes};
}

}  // namespace

CachePlan plan_caches(const ScheduledModels& models, const CacheOptions& options) {
  for (int32_t slots = options.slots;; slots /= 2) {
    const Division division(models, options, slots);
    if (const auto plan = division.fit()) return *plan;
    if (slots > 1 && options.fewer_slots) continue;
    throw refusal(models.model, options, division.least(), slots);
  }
}

}  // namespace veery
