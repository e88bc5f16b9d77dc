// ticket.h: one request to a scheduler, and its answer as it comes.
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
  float logprob = 0;  ///< natural, of the model's own logits, before any filter
};
/// A token with its probability and the most probable ones in its place.
struct ScoredToken {
  TokenChance token;
  std::vector<TokenChance> top;
};

struct GenerateRequest {
  std::vector<int32_t> prompt;
  GenerateOptions options;
  int32_t logprobs = -1;       ///< so many most probable tokens beside each one; -1: no scores
  bool prompt_scores = false;  ///< with logprobs: of the prompt's tokens too
  /// In place of an answer: how probable each of these is behind the prompt. One token or more
  /// each; logprobs, prompt_scores and grammar are not for it.
  std::vector<std::vector<int32_t>> choices;
  /// What the answer may be; nullptr: anything. `grammar_after`: it begins behind this text (the
  /// end of reasoning); empty: at once.
  std::shared_ptr<const Grammar> grammar;
  std::string grammar_after;
  std::optional<ReasoningLimit> reasoning;  ///< absent: reasoning may be of any length
  bool whole = false;            ///< is read when it is over: nobody waits for a part of it
  int32_t priority = 0;          ///< higher ones are begun first
  std::string user;              ///< who asks; users share a scheduler fairly (job_queue.h)
  double weight = 1;             ///< the user's share beside others', above 0
  std::function<void()> notify;  ///< called by the scheduler when there is more; must not wait
};

/// What came since the last piece.
struct AnswerPart {
  std::string text;
  std::vector<ScoredToken> scores;
};

/// How far a request has come.
struct Progress {
  int64_t prompt = 0, cached = 0;  ///< tokens of the prompt, once it was begun; found in the caches
  int64_t tokens = 0;              ///< of the answer, so far
  double first_token = -1;         ///< seconds from submit() to it; less than 0: there is none
};

/// Safe to use from several threads; one of them reads.
class Ticket {
 public:
  explicit Ticket(GenerateRequest request) : request_(std::move(request)) {}
  const GenerateRequest& request() const { return request_; }

  /// Waits for more. False: the answer is over. Throws what ended it, if that was an error.
  bool next(AnswerPart& piece);
  /// The same, waiting no longer than so many seconds; `piece` is empty then.
  bool next_within(AnswerPart& piece, double seconds);
  /// Ends the answer with the next step. Can be called at any time, by anyone.
  void cancel();
  /// At any time.
  Progress progress() const;
  /// After next() gave false.
  const Generation& result() const { return result_; }
  /// Of the prompt, one for each token; the first has no probability (token.id -1).
  const std::vector<ScoredToken>& prompt_scores() const { return prompt_scores_; }
  /// Natural logarithms of the probabilities of GenerateRequest::choices, all tokens of each.
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
  std::function<void()> wake_;  ///< the scheduler's, while it has the request
  // Written by the scheduler before over_, read behind it.
  Generation result_;
  std::vector<ScoredToken> prompt_scores_;
  std::vector<double> choice_scores_;
};

}  // namespace veery
