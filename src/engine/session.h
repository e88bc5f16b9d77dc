// session.h: KV caches and recurrent states of several sequences of a model, and the runs that
// extend them together.
#pragma once
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "engine/model.h"
#include "engine/pages.h"
#include "engine/run_plans.h"
#include "engine/session_sizes.h"
#include "plan/plan.h"
#include "plan/run_block.h"
#include "plan/states.h"
#include "sample/sampler.h"

namespace veery {

/// The tokens that one sequence adds to a run, and the outputs it requests.
struct RunPart {
  int32_t sequence = 0;
  std::span<const int32_t> ids;  ///< appended to the sequence
  int32_t outputs = 1;           ///< outputs are computed for the last `outputs` of the ids
  Wants wants = Wants::kLogits;
  std::span<const float> features = {};  ///< [ids, SessionOptions::features]
  /// The tokens that each output of this part may be; nullptr: all. A run reads it only if
  /// Session::masked() is true afterwards.
  TokenMask* mask = nullptr;
  /// Further roots of the entry to compute in this run (Session::root()), each once. A run computes
  /// the roots of all of its parts.
  std::span<const RootId> roots = {};
};

/// The state of a sequence that its pages do not hold.
struct SavedShape {
  int32_t position = 0;
  bool extended = false;  ///< Session::extended()
  bool encoded = false;   ///< it has the output of an encoder
};

/// Throws kInput, naming the id, if an id is outside the vocabulary.
void check_ids(const Model& model, std::span<const int32_t> ids);

/// Evaluates several sequences of one model in common runs. The results of a sequence do not depend
/// on the other sequences in a run. Not thread-safe except where stated; other sessions, also of
/// the same model, may run on other threads. The model must outlive it.
class Session {
 public:
  explicit Session(Model& model, const SessionOptions& options = {});

  Model& model() const { return model_; }
  int32_t context() const { return context_; }      ///< positions of one sequence
  int32_t most_rows() const { return most_rows_; }  ///< tokens of one run
  int32_t most_outputs() const { return most_outputs_; }
  /// Number of plans made so far; a plan that was also chained or run with masks counts once more
  /// for each. Plans are made when they are first needed, and again after the arena of a device was
  /// replaced (Arena).
  size_t plans() const { return plans_.made(); }
  size_t cache_bytes() const { return states_.bytes(); }
  /// Bytes of the workspaces that were reserved or that plans have demanded.
  ActivationBytes activation_bytes() const;
  StateStore& states() { return states_; }
  Pages& pages() { return pages_; }
  /// Pages of 256 positions that sequences hold.
  int32_t used_pages() const { return pages_.used(); }
  double cache_use() const { return pages_.use(); }  ///< Pages::use()

  /// Opens an empty sequence and returns its index. Throws kLimit if all are in use. `positions` is
  /// its expected final length; 0: the context. Models with two sets of RoPE divisors (longrope)
  /// choose one of them by it, once, so that results do not change when the sequence grows.
  int32_t open(int32_t positions = 0);
  /// Opens a sequence with the first `positions` tokens of another one and returns its index. The
  /// two share pages until one of them writes (copy on write). Throws kLimit if all sequences are
  /// in use; kInput if the other one is shorter or its nearest(positions) is not `positions`.
  int32_t fork(int32_t sequence, int32_t positions);
  void close(int32_t sequence);
  /// Opens a sequence of `shape.position` positions and returns its index. The caller has to write
  /// the content of its pages, which `places` lists (Pages::make()). Throws kLimit if all sequences
  /// are in use or there are not enough pages.
  int32_t open_saved(const SavedShape& shape, std::vector<Pages::Place>& places);
  /// Opens a sequence that continues from held pages and returns its index (Pages::adopt()). Throws
  /// kLimit if all sequences are in use.
  int32_t open_held(const SavedShape& shape, std::span<const int32_t> pages,
                    const Pages::State* state);
  SavedShape shape(int32_t sequence) const;
  /// Whether another sequence can be opened and has memory for `positions` positions now.
  bool fits_saved(int32_t positions);

  int32_t position(int32_t sequence) const;  ///< tokens fed so far
  /// Whether a sequence uses the RoPE divisors for long contexts, and whether a sequence of
  /// `positions` positions would.
  bool extended(int32_t sequence) const { return extended_[static_cast<size_t>(sequence)] != 0; }
  bool would_extend(int32_t positions) const;
  /// Takes a snapshot, if one is needed, to which rewind() can return later (Pages::save()).
  void save(int32_t sequence);
  /// The largest position <= `position` that rewind() can go to. With recurrent layers, and once a
  /// sliding window has dropped positions that are needed there, only recent positions, snapshots
  /// and 0 are possible. Throws kInput if `position` is negative or past the end.
  int32_t nearest(int32_t sequence, int32_t position) const;
  bool can_rewind(int32_t sequence, int32_t position) const {
    return position >= 0 && position <= this->position(sequence) &&
           nearest(sequence, position) == position;
  }
  /// Whether, after a run of `tokens` tokens, the sequence can be rewound to every position that
  /// the run adds.
  bool can_go_back(int32_t sequence, int32_t tokens) const;
  /// Whether it can also be rewound to its current position then.
  bool can_undo(int32_t sequence, int32_t tokens) const;
  /// The most tokens of a run for which can_undo() may be true.
  int32_t most_undone() const;
  /// Drops all tokens after the first `position`. Throws kInput if nearest(position) is another
  /// position.
  void rewind(int32_t sequence, int32_t position);

  /// Whether the caches now have memory for `times` runs with as many tokens as these parts have.
  bool fits(std::span<const RunPart> parts, int32_t times = 1) {
    return lack(parts, times) == Pages::Lack::kNothing;
  }
  /// Returns the memory that the caches have too little of for that.
  Pages::Lack lack(std::span<const RunPart> parts, int32_t times = 1);

  /// Runs the encoder of the model on `features` [positions, two frames of bands]. Stores the keys
  /// and values of the encoder's output in the sequence, for the cross-attention of the decoder.
  /// Throws kInput if the size of `features` is not that of the model's input.
  void encode(int32_t sequence, std::span<const float> features);
  /// Row `position` (dim values) of the encoder's output in the last encode().
  std::span<const float> encoded(int64_t position) const;

  /// Evaluates the parts, each of a different sequence, in one run. Throws kInput for an id outside
  /// the vocabulary, for a sequence that occurs twice, or, if the decoder attends to an encoder,
  /// for a sequence without encode(); kLimit, with both numbers, if tokens do not fit a context, a
  /// run or the caches, or if there are too many outputs. No sequence has moved after an exception.
  void run(std::span<const RunPart> parts);
  /// The most tokens that run_chain() can produce for each of these parts; 0 if it cannot run them.
  /// Every part must have one token and one output. `draws`: at least one row is not greedy.
  int32_t chain_steps(std::span<const RunPart> parts, bool draws);
  /// Chained decode: runs the parts, then feeds each sampled token back on the device until part i
  /// has produced rows[i].most tokens, has produced one of its stops, or its next token cannot be
  /// determined from the device's most probable tokens. chosen(i) returns the tokens of part i;
  /// best() numbers the tokens of all parts in order. All tokens of a part except the last have
  /// been appended to its sequence. Throws as run() does; no sequence has moved after an exception.
  void run_chain(std::span<const RunPart> parts, std::span<const ChainRow> rows);
  std::span<const int32_t> chosen(size_t part) const {
    return last_->chosen(static_cast<int64_t>(part));
  }
  /// Whether the last run was a chain.
  bool chained() const { return is_chain_; }
  /// Interns a root of the entry, for RunPart::roots. Throws kInput if there is none of this name.
  RootId root(const std::string& name) { return plans_.root(name); }
  /// Row `i` of a root that a part of the last run requested, valid until the next run: a row of
  /// the run or an output, as the root has it. Copied from the device when first read. May be
  /// called from several threads.
  std::span<const float> row(RootId root, int64_t i) const;
  /// Whether the model's device applied the masks of the last run's parts. If not, the caller has
  /// to apply them when it samples.
  bool masked() const { return masked_; }
  /// All logits (vocab) of output `i` of the last run, counted over its parts, valid until the next
  /// run; NaN for tokens that an applied mask excludes. The part must want kLogits or kTop. May be
  /// called from several threads.
  std::span<const float> logits(int32_t i) const;
  /// The most probable tokens of output `i`, valid until the next run; absent if the last run did
  /// not compute them (Wants::kTop).
  std::optional<TopLogits> top(int32_t i) const;
  /// The most probable token of output `i`, whatever its part wants. May be called from several
  /// threads.
  int32_t best(int32_t i) const;

  /// The plan for runs of up to `rows` tokens and `outputs` outputs, made when first needed. Valid
  /// until the next run or call.
  Plan& plan(int64_t rows, int64_t outputs = 1, Wants wants = Wants::kLogits);
  /// The values, as f32 [positions][columns], that encode() wrote for a sequence to a state of the
  /// graph ("blk.0.cross_attn.k_source").
  std::vector<float> source_values(int32_t sequence, const std::string& state,
                                   int64_t positions) const;

 private:
  struct Sequence {
    bool open = false;
    bool encoded = false;  ///< encode() has written the source that the decoder attends to
    int32_t position = 0;
    int32_t saved = 0;  ///< the last position with a snapshot
    uint64_t run = 0;   ///< the value of runs_ when it was last checked; finds duplicates in a run
  };

  void check(int32_t sequence) const;
  void check(std::span<const RunPart> parts);
  void prepare(std::span<const RunPart> parts);
  void finish(std::span<const RunPart> parts);
  void move_on(int32_t sequence, int32_t tokens);
  void fill_block(std::span<const RunPart> parts);
  Plan& source_plan();
  void start(const RunPlans::Key& key);
  int32_t set_of(std::span<const RunPart> parts);
  void fetch(size_t root) const;
  static RunPlans::Key key_of(int64_t rows, int64_t outputs, Wants wants, int32_t set = 0);

  Model& model_;
  int32_t context_, most_rows_, most_outputs_, snapshot_every_;
  int64_t features_;
  StateStore states_;
  Pages pages_;
  RunBlock block_;
  /// Inputs in block_; empty if the model does not declare them.
  std::span<int32_t> tokens_, is_extended_;
  std::span<float> features_input_;
  std::vector<Sequence> sequences_;
  std::vector<uint8_t> extended_;  ///< of each sequence: Trace::is_extended()
  std::vector<Pages::Range> ranges_;
  int32_t source_positions_;  ///< positions of the encoder's output per sequence; 0: no encoder
  std::unique_ptr<RunBlock> source_block_;
  std::deque<Workspace> workspaces_;  ///< of each place
  Workspace source_workspace_;        ///< its results are encoded(), which runs do not overwrite
  std::vector<Arena*> arenas_;        ///< of the workspaces, for Turn
  std::unique_ptr<Plan> source_plan_;
  RunPlans plans_;
  uint64_t runs_ = 0;
  Plan* last_ = nullptr;
  RunPlans::Key last_key_ = key_of(1, 1, Wants::kLogits);
  bool is_chain_ = false, masked_ = false;  ///< of the last run
  std::vector<int32_t> chained_;            ///< its tokens, of all parts, if it was a chain
  mutable std::mutex fetch_;
  mutable std::vector<uint8_t> fetched_;  ///< roots of the last run that were copied on demand
};

/// The output that `sampler` needs to choose tokens.
Wants wants_of(const Sampler& sampler);
/// Samples the token for output `i` of the last run. Its part must have wanted wants_of(sampler).
/// `history`: the tokens so far, for penalties.
int32_t draw(const Session& session, int32_t i, Sampler& sampler, std::span<const int32_t> history);

}  // namespace veery
