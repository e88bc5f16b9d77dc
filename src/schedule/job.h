// job.h: a request that a scheduler has begun.
#pragma once
#include <exception>
#include <memory>
#include <optional>
#include <vector>

#include "engine/answer_text.h"
#include "engine/runner.h"
#include "schedule/draft.h"
#include "schedule/selection/choices.h"
#include "schedule/selection/reasoning_budget.h"
#include "schedule/selection/token_rules.h"
#include "schedule/ticket.h"

namespace veery {

/// Its tokens, how far they have been run, and what becomes of the logits. The model must outlive
/// it.
class Job : private TokenMask {
 public:
  /// Throws kInput naming an option that is out of range.
  Job(const Model& model, std::shared_ptr<Ticket> ticket);

  Ticket& ticket() { return *ticket_; }
  const GenerateRequest& request() const { return ticket_->request(); }
  /// Of prompt and answer.
  std::span<const int32_t> tokens() const { return std::span(tokens_).first(known()); }
  /// Positions that it will take at most.
  int32_t positions(int32_t context) const;

  /// -1: it has none.
  int32_t sequence = -1;
  int32_t run = 0;  ///< tokens that were run
  bool begun = false;
  double last_token = 0;  ///< seconds_now() when its last tokens were chosen; 0: it has none

  /// Whether its next part is one of a prompt, or of choices, which are run as prompts are.
  bool prompting() const { return choices_ || known() - static_cast<size_t>(run) > 1; }
  /// Whether it is asked how probable given tokens are: nothing that goes on later.
  bool scores() const { return choices_ || request().prompt_scores; }
  /// Whether each token of its next part is an output.
  bool scores_rows() const { return trying() || scores_prompt(); }
  /// Whether the part just run belongs to a choice of which more is to be run.
  bool within_choice() const { return within_choice_; }
  /// The next `most` tokens at most, with what outputs are wanted of them; a draft with the last
  /// one.
  RunPart part(int32_t most) const;
  /// What a chain is told of its next tokens, at most `most` of them; nothing where they take more
  /// than a chain can do.
  std::optional<ChainRow> chain_row(int32_t most, int32_t context) const;
  /// A chain was told `row` and made these tokens, which the next part tests.
  void take_chain(const ChainRow& row, std::span<const int32_t> made);
  /// How many tokens of a draft could be tested beside its next token: none behind its end or the
  /// context's, nor where a grammar begins.
  int32_t draft_room(int32_t context) const;
  LookupDraft& lookup() { return lookup_; }
  /// Tokens of what alone a grammar lets follow, at most `most`. Valid until the next call.
  std::span<const int32_t> forced(int32_t most);
  double model_rate() const { return model_rate_.value(); }
  double grammar_rate() const { return grammar_rate_.value(); }
  /// Tokens that the next part tests.
  void set_draft(std::span<const int32_t> ids, DraftSource source);
  /// What it takes to choose its tokens.
  Wants wants() const;
  /// What its grammar says of its next part, if one has begun.
  TokenMask* mask() { return grammar_ ? this : nullptr; }

  /// After a run of `part`: takes its tokens from the logits, or is told them: one, and one more
  /// for each of the draft that was right. Does not touch the ticket, so jobs may do it side by
  /// side.
  void choose(const Runner& runner, int32_t first_output, const RunPart& part);
  /// The error that ends this answer: its grammar takes too long or has no continuation. Null:
  /// none.
  std::exception_ptr failure() const { return failure_; }
  /// Of the tokens of a part that was run, the first so many are of the answer.
  int32_t accepted(const RunPart& part) const;
  /// So many more were run; the draft is over.
  void settle(int32_t count);
  /// It has no sequence any more: all is to be run again.
  void restart();
  /// Hands out what choose() found; true: the answer is over.
  bool deliver(int32_t context);
  /// Says that nothing more comes. `error`: why, where that is an error.
  void finish(std::exception_ptr error = {});
  void cancel() { text_.cancel(); }
  /// So far.
  const Generation& result() const { return result_; }
  /// Of the prompt so many tokens were found in the caches.
  void count_prompt(int32_t reused);
  /// seconds_now() when it was made.
  double submitted() const { return start_; }
  /// Tokens of the answer that were delivered since the last call.
  int64_t take_fresh();

 private:
  bool wants_prompt_scores() const { return request().prompt_scores && request().logprobs >= 0; }
  bool scores_prompt() const {
    return wants_prompt_scores() && static_cast<size_t>(run) < request().prompt.size();
  }
  /// Whether a part is of a choice: all of the prompt was run before it.
  bool trying() const { return choices_ && static_cast<size_t>(run) == tokens_.size(); }
  void score_choices(const Runner& runner, int32_t first_output, const RunPart& part);
  size_t known() const { return tokens_.size() - static_cast<size_t>(drafted_); }
  template <typename Use>
  void guarded(const Use& use);
  /// Whether the request restricts its next token beside the grammar.
  bool ruled() const;
  void fill(const TokenMaskRows& rows) override;
  void fill_rows(const TokenMaskRows& rows);
  void choose_tokens(const Runner& runner, int32_t first_output, const RunPart& part);
  ScoredToken choose_token(const Runner& runner, int32_t output, Wants wants,
                           std::span<const int32_t> history);
  int32_t draw(std::span<const float> logits, std::span<const int32_t> history);
  bool deliver(ScoredToken& chosen);
  void begin_grammar();
  void score_prompt(const Runner& runner, int32_t first_output, const RunPart& part);

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
  bool within_choice_ = false;
  std::exception_ptr failure_;
  int32_t chain_pause_ = 0, chain_wait_ = 0;  // steps without chains, all and left
  std::vector<float> masked_;
  double start_, prompted_ = 0;
  int64_t counted_ = 0;  // tokens that take_fresh() told
};

/// The score of `id`, with the `top` most probable tokens beside it, most probable first.
ScoredToken score_token(std::span<const float> logits, int32_t id, int32_t top);

}  // namespace veery
