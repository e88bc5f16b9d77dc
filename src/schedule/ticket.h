// ticket.h: one request to a scheduler and the stream of its answer.
#pragma once
#include <condition_variable>
#include <deque>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "engine/generate.h"
#include "schedule/selection/reasoning_budget.h"
#include "text/grammar/grammar.h"

namespace veery {

struct TokenChance {
  int32_t id = -1;
  float logprob = 0;  ///< natural logarithm, of the model's own logits, before any filter
};
/// A token with its log-probability and the most probable tokens at its position.
struct ScoredToken {
  TokenChance token;
  std::vector<TokenChance> top;
};

struct GenerateRequest {
  std::vector<int32_t> prompt;
  GenerateOptions options;
  int32_t logprobs = -1;       ///< number of most probable tokens per token; -1: no scores
  bool prompt_scores = false;  ///< with logprobs: also score the tokens of the prompt
  /// Continuations to score instead of generating an answer, each of one token or more. Must not be
  /// combined with logprobs, prompt_scores or a grammar.
  std::vector<std::vector<int32_t>> choices;
  /// Constrains the answer; nullptr: no constraint. `grammar_after`: the grammar begins after this
  /// text (the end of reasoning); empty: at once.
  std::shared_ptr<const Grammar> grammar;
  std::string grammar_after;
  std::optional<ReasoningLimit> reasoning;  ///< absent: no limit
  bool whole = false;            ///< the answer is read when it is over, so nobody waits for parts
  int32_t priority = 0;          ///< higher priorities begin first
  std::string user;              ///< users share a scheduler fairly (job_queue.h)
  double weight = 1;             ///< share of the user, above 0
  std::function<void()> notify;  ///< called by the scheduler when there is more; must not block
};

/// The text and the scores since the last part.
struct AnswerPart {
  std::string text;
  std::vector<ScoredToken> scores;
};

/// The progress of a request.
struct Progress {
  int64_t prompt = 0;       ///< tokens of the prompt, once it was begun
  int64_t cached = 0;       ///< of them, tokens found in the prefix cache
  int64_t tokens = 0;       ///< tokens of the answer so far
  double first_token = -1;  ///< seconds from submit() to the first token; negative: none yet
};

/// The answer of one request. Safe to use from several threads, except that only one thread may
/// call next() and next_within().
class Ticket {
 public:
  explicit Ticket(GenerateRequest request) : request_(std::move(request)) {}
  const GenerateRequest& request() const { return request_; }

  /// Waits for the next part. Returns false if the answer is over; throws the error that ended it.
  bool next(AnswerPart& piece);
  /// The same, but waits for at most `seconds`; `piece` is empty if nothing came.
  bool next_within(AnswerPart& piece, double seconds);
  /// Ends the answer at the next step. May be called at any time and by any thread.
  void cancel();
  Progress progress() const;
  // Valid after next() has returned false:
  const Generation& result() const { return result_; }
  /// Returns one score for each token of the prompt; the first has none (token.id -1).
  const std::vector<ScoredToken>& prompt_scores() const { return prompt_scores_; }
  /// Returns the natural logarithm of the probability of each of GenerateRequest::choices.
  const std::vector<double>& choice_scores() const { return choice_scores_; }

 private:
  friend class Scheduler;
  friend class Job;
  void note(const Progress& progress);
  void note_token(double first_token);
  void push(AnswerPart piece);
  void finish(std::exception_ptr error);
  bool cancelled() const;
  bool take(std::unique_lock<std::mutex>& lock, AnswerPart& piece);

  GenerateRequest request_;
  mutable std::mutex mutex_;
  std::condition_variable ready_;
  AnswerPart waiting_;
  bool over_ = false, cancelled_ = false;
  Progress progress_;
  std::exception_ptr error_;
  std::function<void()> wake_;  ///< wakes the scheduler, while it has the request
  // Written by the scheduler before it sets over_, read afterwards.
  Generation result_;
  std::vector<ScoredToken> prompt_scores_;
  std::vector<double> choice_scores_;
};

}  // namespace veery
