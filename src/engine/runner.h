// runner.h: the caches of several sequences of a model, and the runs that move them on together.
#pragma once
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <tuple>
#include <vector>

#include "engine/model.h"
#include "engine/pages.h"
#include "engine/runner_sizes.h"
#include "plan/plan.h"
#include "plan/run_block.h"
#include "plan/states.h"
#include "sample/sampler.h"

namespace veery {

/// What one sequence adds to a run.
struct RunPart {
  int32_t sequence = 0;
  std::span<const int32_t> ids;  ///< follow what the sequence holds
  int32_t outputs = 1;           ///< what comes after the last so many of them is wanted
  Wants wants = Wants::kLogits;
  std::span<const float> features = {};  ///< of each id, RunnerOptions::features of them
  /// Of its outputs, which tokens may come; nullptr: all. Asked where Runner::masked().
  TokenMask* mask = nullptr;
};

/// What a sequence is beside what its pages hold.
struct SavedShape {
  int32_t position = 0;
  bool extended = false;  ///< Runner::extended()
  bool encoded = false;   ///< what an encoder wrote is there
};

/// Throws kInput, naming the id, if one is outside of the vocabulary.
void check_ids(const Model& model, std::span<const int32_t> ids);

/// What a sequence gives does not depend on what runs beside it. Not thread-safe. The model must
/// outlive it.
class Runner {
 public:
  explicit Runner(Model& model, const RunnerOptions& options = {});

  Model& model() const { return model_; }
  int32_t context() const { return context_; }      ///< positions of one sequence
  int32_t most_rows() const { return most_rows_; }  ///< tokens of one run
  int32_t most_outputs() const { return most_outputs_; }
  /// Plans, chains and runs with masks made so far; each when it is first needed.
  size_t plans() const { return plans_.size() + chains_.size() + masked_plans_.size(); }
  size_t cache_bytes() const { return states_.bytes(); }
  /// Of the workspaces, as far as they were reserved or plans took them.
  size_t activation_bytes() const {
    size_t bytes = source_workspace_.bytes();
    for (const Workspace& workspace : workspaces_) bytes += workspace.bytes();
    return bytes;
  }
  StateStore& states() { return states_; }
  Pages& pages() { return pages_; }
  /// Pages of 256 positions that sequences hold.
  int32_t used_pages() const { return pages_.used(); }
  double cache_use() const { return pages_.use(); }  ///< Pages::use()

  /// A new, empty sequence. Throws kLimit if all are in use. `positions`: what it will become, 0:
  /// as long as its context. Models with two sets of RoPE divisors (longrope) choose theirs by it,
  /// once, so that what a sequence gives does not change when it grows.
  int32_t open(int32_t positions = 0);
  /// A sequence that begins as the first `positions` tokens of another do: the pages are shared
  /// until one of the two writes to them. Throws kLimit if all are in use, kInput if the other is
  /// shorter or nearest() of it is less.
  int32_t fork(int32_t sequence, int32_t positions);
  void close(int32_t sequence);
  /// A sequence of so many positions, whose pages (Pages::make()) are still to be written. Throws
  /// kLimit if all are in use, or there are not enough pages.
  int32_t open_saved(const SavedShape& shape, std::vector<Pages::Place>& places);
  SavedShape shape(int32_t sequence) const;
  /// Whether there is memory for another sequence of so many positions now.
  bool fits_saved(int32_t positions);

  int32_t position(int32_t sequence) const;  ///< tokens fed so far
  /// Which set of RoPE divisors a sequence has, and which one of so many positions would have.
  bool extended(int32_t sequence) const { return extended_[static_cast<size_t>(sequence)] != 0; }
  bool would_extend(int32_t positions) const;
  /// Keeps what it takes to come back to this position of a sequence later.
  void save(int32_t sequence);
  /// The largest position <= `position` that rewind() can go to. Where a sliding window has left
  /// positions behind and in recurrent layers those are snapshots, the current position and 0.
  /// Throws kInput where `position` is negative or past the end.
  int32_t nearest(int32_t sequence, int32_t position) const;
  bool can_rewind(int32_t sequence, int32_t position) const {
    return position >= 0 && position <= this->position(sequence) &&
           nearest(sequence, position) == position;
  }
  /// Whether a sequence can be rewound to any of its next positions after a run of so many tokens.
  bool can_go_back(int32_t sequence, int32_t tokens) const;
  /// The same, and to the position that it has now.
  bool can_undo(int32_t sequence, int32_t tokens) const;
  /// The most tokens of a run for which that may be so.
  int32_t most_undone() const;
  /// Forgets everything after the first `position` tokens. Throws kInput where that is impossible.
  void rewind(int32_t sequence, int32_t position);

  /// Whether the caches have memory for these parts now, each run `times` times.
  bool fits(std::span<const RunPart> parts, int32_t times = 1);

  /// Runs the encoder of the model on `features` [positions, two frames of bands] and keeps for
  /// the sequence what the decoder attends to from then on. Throws kInput where there are not as
  /// many as the model takes.
  void encode(int32_t sequence, std::span<const float> features);
  /// Of the last encode(): [positions, dim], row by row, which the encoder gave.
  std::span<const float> encoded(int64_t position) const;

  /// Runs the parts, each of another sequence, in one go. Throws kInput for an id outside of the
  /// vocabulary or a sequence without the output of an encoder, where the decoder attends to an
  /// encoder, kLimit naming both numbers if tokens do not fit a context, a run or the caches, or
  /// there are more outputs than a run may have; then no sequence has moved.
  void run(std::span<const RunPart> parts);
  /// Tokens that run_chain() makes at most of each of these parts, which have one token each, whose
  /// output is wanted; 0: it cannot. `draws`: not all of their rows are greedy.
  int32_t chain_steps(std::span<const RunPart> parts, bool draws);
  /// Runs the parts and then, without coming back in between, what was chosen or drawn behind each,
  /// as often as its row says (ChainRow, one a part) or until it can no longer be told by the most
  /// probable tokens. chosen() has what was made of a part, best() of all, one after the other; a
  /// sequence has been fed all of them but the last. Throws as run() does, without that anything
  /// was changed.
  void run_chain(std::span<const RunPart> parts, std::span<const ChainRow> rows);
  std::span<const int32_t> chosen(size_t part) const {
    return last_->chosen(static_cast<int64_t>(part));
  }
  /// Whether the last run was a chain.
  bool chained() const { return is_chain_; }
  /// As run(), of one sequence, whose tokens are all outputs, which also computes other roots of
  /// the entry: values(k, i) is row `i` of `roots[k]`, valid until the next run.
  void run_with(int32_t sequence, std::span<const int32_t> ids, std::span<const std::string> roots);
  std::span<const float> values(size_t root, int64_t i) const;
  /// Whether the model's device heeded the masks of the last run's parts. Elsewhere whoever chooses
  /// tokens has to.
  bool masked() const { return masked_; }
  /// Of output `i` of the last run, counted over its parts, whose part wants logits or the most
  /// probable tokens: all logits (vocab), valid until the next run; NaN where a mask was heeded.
  /// May be called from several threads.
  std::span<const float> logits(int32_t i) const;
  /// Of the same: the most probable tokens, valid until the next run. Nothing where all logits are
  /// with the host.
  std::optional<TopLogits> top(int32_t i) const;
  /// Of any output: the most probable token. May be called from several threads.
  int32_t best(int32_t i) const;

  /// Row `i` of the root RunnerOptions::also, valid until the next run.
  std::span<const float> also(int64_t i) const;

  /// The plan for runs of up to `rows` tokens and `outputs` outputs, made when first needed.
  Plan& plan(int64_t rows, int64_t outputs = 1, Wants wants = Wants::kLogits);
  /// What an encoder wrote for a sequence under the name of a state of the graph
  /// ("blk.0.cross_attn.k_source"), as f32: [positions][columns].
  std::vector<float> source_values(int32_t sequence, const std::string& state,
                                   int64_t positions) const;

 private:
  struct Sequence {
    bool open = false;
    bool encoded = false;  ///< something, where the decoder attends to an encoder
    int32_t position = 0;
    int32_t saved = 0;  ///< the last position with a snapshot
    uint64_t run = 0;   ///< the last one that was checked with it
  };

  void check(int32_t sequence) const;
  void check(std::span<const RunPart> parts);
  void prepare(std::span<const RunPart> parts);
  void finish(std::span<const RunPart> parts);
  void move_on(int32_t sequence, int32_t tokens);
  void fill_block(std::span<const RunPart> parts);
  bool writes_input(const Node& input) const;
  void check_inputs(const std::vector<Value>& roots) const;
  std::unique_ptr<Plan> make_plan(int64_t rows, int64_t outputs, std::vector<Value> roots,
                                  size_t first_fetched = SIZE_MAX);
  Plan& source_plan();

  /// The graph of plans with these roots: fusing takes longer than all else that makes a plan.
  struct Fused {
    std::vector<Value> of, roots;
    Graph graph;
  };
  const Fused& fused(const std::vector<Value>& roots);

  Model& model_;
  int32_t context_, most_rows_, most_outputs_, snapshot_every_;
  int64_t features_;
  std::string also_;
  StateStore states_;
  Pages pages_;
  RunBlock block_;
  /// Inputs of the block; empty where the model does not declare them.
  std::span<int32_t> tokens_, is_extended_;
  std::span<float> features_input_;
  std::vector<Sequence> sequences_;
  std::vector<uint8_t> extended_;  ///< of each sequence: Trace::is_extended()
  std::vector<Pages::Range> ranges_;
  int32_t source_positions_;  ///< that an encoder gives each sequence; 0: there is none
  std::unique_ptr<RunBlock> source_block_;
  Workspace source_workspace_;  ///< apart: encoded() holds between runs
  std::unique_ptr<Plan> source_plan_;
  std::deque<Workspace> workspaces_;  ///< of each place
  std::deque<Fused> fused_;
  std::map<std::tuple<int64_t, int64_t, Wants>, std::unique_ptr<Plan>> plans_;
  /// Of run_with().
  std::map<std::pair<int64_t, std::vector<std::string>>, std::unique_ptr<Plan>> plans_with_;
  uint64_t runs_ = 0;
  Plan* last_ = nullptr;
  Wants last_wants_ = Wants::kLogits;
  std::set<const Plan*> chains_;  ///< plans that were chained
  std::set<const Plan*> masked_plans_;
  bool is_chain_ = false, masked_ = false;  ///< the last run
  std::vector<int32_t> chained_;            ///< what it made of all parts
  mutable std::mutex fetch_;
  mutable bool fetched_ = false;  ///< the logits of the last run, where they came on demand
};

/// What it takes to draw tokens.
Wants wants_of(const Sampler& sampler);
/// The token that comes after output `i` of the last run, whose part wanted that.
int32_t draw(const Runner& runner, int32_t i, Sampler& sampler, std::span<const int32_t> history);

}  // namespace veery
