// job.h: one request in a scheduler: its tokens, its progress and the sampling of its answer.
#pragma once
#include <exception>
#include <memory>
#include <optional>
#include <vector>

#include "engine/answer_text.h"
#include "engine/session.h"
#include "schedule/drafts/draft.h"
#include "schedule/selection/choices.h"
#include "schedule/selection/reasoning_budget.h"
#include "schedule/selection/token_rules.h"
#include "schedule/ticket.h"

namespace veery {

/// Belongs to the thread of the scheduler, except for choose(). The model must outlive it.
class Job : private TokenMask {
 public:
  /// Throws kInput naming an option that is out of range.
  Job(const Model& model, std::shared_ptr<Ticket> ticket);
  /// Ends the answer with an error if finish() was not called, so that no reader waits for ever.
  ~Job() override;

  Ticket& ticket() { return *ticket_; }
  const GenerateRequest& request() const { return ticket_->request(); }
  /// Returns the tokens of the prompt and the answer so far, without those of a draft.
  std::span<const int32_t> tokens() const { return std::span(tokens_).first(known()); }
  /// Returns the positions that the request needs at most.
  int32_t positions(int32_t context) const;

  int32_t sequence = -1;  ///< of the session; -1: none
  int32_t run = 0;        ///< tokens in the sequence
  bool begun = false;
  double last_token = 0;  ///< seconds_now() when its last tokens were sampled; 0: none yet
  uint64_t number = 0;    ///< identifies the job in its scheduler
  /// The job whose prompt this one waits for (0: none), and the tokens that the prompts share.
  uint64_t waits_for = 0;
  int32_t shared = 0;

  /// Whether its next part is a prefill chunk; choices are run like prompts.
  bool prompting() const { return choices_ || known() - static_cast<size_t>(run) > 1; }
  /// Whether it scores given tokens, so that no later prompt continues it.
  bool scores() const { return choices_ || request().prompt_scores; }
  /// Whether every token of its next part needs logits.
  bool scores_rows() const { return trying() || scores_prompt(); }
  /// Whether the part that was run last is followed by more tokens of the same choice.
  bool within_choice() const { return within_choice_; }
  /// Returns a part with up to `most` next tokens and the requested outputs. If there is a draft:
  /// the last token and the draft.
  RunPart part(int32_t most) const;
  /// Returns the settings for chained decode of up to `most` tokens; nothing if the request needs
  /// more than a chain can do.
  std::optional<ChainRow> chain_row(int32_t most, int32_t context) const;
  /// Takes the tokens that a chain with the settings `row` decoded; the next part verifies them.
  void take_chain(const ChainRow& row, std::span<const int32_t> made);
  /// Returns the most draft tokens that the next part can verify: none past the end of the answer
  /// or the context, and none if sampling needs the logits of each token.
  int32_t draft_room(int32_t context) const;
  LookupDraft& lookup() { return lookup_; }
  /// Returns up to `most` tokens of the only text that the grammar allows next. Valid until the
  /// next call.
  std::span<const int32_t> forced(int32_t most);
  double model_rate() const { return model_rate_.value(); }
  double grammar_rate() const { return grammar_rate_.value(); }
  /// Sets the draft that the next part verifies.
  void set_draft(std::span<const int32_t> ids, DraftSource source);
  /// Returns the output that sampling needs.
  Wants wants() const;
  /// Returns the mask of its grammar; null if none has begun.
  TokenMask* mask() { return grammar_ ? this : nullptr; }

  /// After a run of `part`: samples the next token, and one more for each accepted draft token.
  /// Does not touch the ticket, so several jobs may do this in parallel.
  void choose(const Session& session, int32_t first_output, const RunPart& part);
  /// Returns the error that ends this answer, e.g. if its grammar has no continuation; null: none.
  std::exception_ptr failure() const { return failure_; }
  /// Returns how many of the first tokens of a part that was run stay in the sequence.
  int32_t accepted(const RunPart& part) const;
  /// Records that `count` more tokens are in the sequence, and drops the draft.
  void settle(int32_t count);
  /// Records that the sequence was lost: all tokens are run again.
  void restart();
  /// Passes the tokens of choose() to the ticket. Returns true if the answer is over.
  bool deliver(int32_t context);
  /// Ends the answer; `error`: why it failed, null if it did not. Does nothing if it has ended.
  void finish(std::exception_ptr error = {}) noexcept;
  bool finished() const { return finished_; }
  bool cancelled() const { return ticket_->cancelled(); }  ///< by its reader
  void cancel() { text_.cancel(); }
  const Generation& result() const { return result_; }  ///< so far
  /// Records how many tokens of the prompt were in the prefix cache.
  void count_prompt(int32_t reused);
  double submitted() const { return start_; }  ///< seconds_now() of the constructor
  /// Returns the number of tokens that were delivered since the last call.
  int64_t take_fresh();

 private:
  bool wants_prompt_scores() const { return request().prompt_scores && request().logprobs >= 0; }
  bool scores_prompt() const {
    return wants_prompt_scores() && static_cast<size_t>(run) < request().prompt.size();
  }
  /// Whether the next part belongs to a choice: all of the prompt was run.
  bool trying() const { return choices_ && static_cast<size_t>(run) == tokens_.size(); }
  void score_choices(const Session& session, int32_t first_output, const RunPart& part);
  size_t known() const { return tokens_.size() - static_cast<size_t>(drafted_); }
  template <typename Use>
  void guarded(const Use& use);
  /// Whether token rules restrict the next token.
  bool ruled() const;
  void fill(const TokenMaskRows& rows) override;
  void fill_rows(const TokenMaskRows& rows);
  void choose_tokens(const Session& session, int32_t first_output, const RunPart& part);
  ScoredToken choose_token(const Session& session, int32_t output, Wants wants,
                           std::span<const int32_t> history);
  int32_t draw(std::span<const float> logits, std::span<const int32_t> history);
  bool deliver(ScoredToken& chosen);
  void begin_grammar();
  void score_prompt(const Session& session, int32_t first_output, const RunPart& part);
  void fill_result();

  const Tokenizer& tokenizer_;
  std::shared_ptr<Ticket> ticket_;
  std::vector<int32_t> tokens_;  ///< the last drafted_ of them are the draft
  int32_t drafted_ = 0;
  DraftSource source_ = DraftSource::kLookup;
  DraftRate model_rate_{0.7}, grammar_rate_{0.9};
  std::vector<int32_t> forced_;
  LookupDraft lookup_;
  Sampler sampler_;
  TokenRules rules_;
  AnswerText text_;
  Generation result_;
  std::vector<ScoredToken> prompt_scores_;
  std::vector<ScoredToken> chosen_;
  std::unique_ptr<GrammarState> grammar_;  // once it has begun
  std::optional<Choices> choices_;
  std::optional<ReasoningBudget> budget_;
  bool within_choice_ = false, finished_ = false;
  std::exception_ptr failure_;
  int32_t chain_pause_ = 0, chain_wait_ = 0;  // steps without chains: in all, and left
  std::vector<float> masked_;
  double start_, prompted_ = 0;
  int64_t counted_ = 0;  // tokens that take_fresh() has returned
};

/// Returns the log-probability of `id` and the `top` most probable tokens, most probable first.
ScoredToken score_token(std::span<const float> logits, int32_t id, int32_t top);

}  // namespace veery
