// job.h: a request that a scheduler has begun.
#pragma once
#include <memory>
#include <vector>

#include "engine/answer_text.h"
#include "engine/runner.h"
#include "schedule/ticket.h"

namespace veery {

/// Its tokens, how far they have been run, and what becomes of the logits. The model must outlive
/// it.
class Job {
 public:
  /// Throws kInput naming an option that is out of range.
  Job(const Model& model, std::shared_ptr<Ticket> ticket);

  Ticket& ticket() { return *ticket_; }
  const GenerateRequest& request() const { return ticket_->request(); }
  const std::vector<int32_t>& tokens() const { return tokens_; }
  /// Positions that it will take at most.
  int32_t positions(int32_t context) const;

  /// -1: it has none.
  int32_t sequence = -1;
  int32_t run = 0;  ///< tokens that were run
  bool begun = false;

  bool prompting() const { return tokens_.size() - static_cast<size_t>(run) > 1; }
  /// The next `most` tokens at most, with what outputs are wanted of them.
  RunPart part(int32_t most) const;
  /// Whether only the most probable token of its outputs is wanted.
  bool greedy() const { return sampler_.greedy() && request().logprobs < 0 && !request().grammar; }

  /// After a run of `part`: takes its token from the logits, or is told it. Does not touch the
  /// ticket, so jobs may do it side by side.
  void choose(const Runner& runner, int32_t first_output, const RunPart& part, bool greedy);
  /// Hands out what choose() found; true: the answer is over.
  bool deliver(int32_t context);
  /// Says that nothing more comes. `error`: why, where that is an error.
  void finish(std::exception_ptr error = {});
  void cancel() { text_.cancel(); }
  /// Of the prompt so many tokens were found in the caches.
  void count_prompt(int32_t reused);

 private:
  bool wants_prompt_scores() const { return request().prompt_scores && request().logprobs >= 0; }
  int32_t draw(std::span<const float> logits);
  void begin_grammar();
  void score_prompt(const Runner& runner, int32_t first_output, const RunPart& part);

  std::shared_ptr<Ticket> ticket_;
  std::vector<int32_t> tokens_;
  Sampler sampler_;
  AnswerText text_;
  Generation result_;
  std::vector<ScoredToken> prompt_scores_;
  ScoredToken chosen_;
  std::unique_ptr<GrammarState> grammar_;  // once it has begun
  std::vector<float> masked_;
  double start_, prompted_ = 0;
};

/// The score of `id`, with the `top` most probable tokens beside it, most probable first.
ScoredToken score_token(std::span<const float> logits, int32_t id, int32_t top);

}  // namespace veery
