// reasoning_budget.h: limits the reasoning of an answer to a number of tokens.
#pragma once
#include <cstdint>
#include <deque>
#include <limits>
#include <string_view>

#include "text/answer/answer_parser.h"
#include "text/tokenizer.h"

namespace veery {

/// The reasoning that a request allows.
struct ReasoningLimit {
  AnswerParser parser;  ///< of the answer, before its first token: the prompt may open reasoning
  int64_t tokens = 0;   ///< of reasoning, without the marks around it
};

/// Follows an answer and, when the limit is reached, forces the tokens of the text that ends the
/// reasoning. Forces nothing afterwards, or once content or a call has begun.
class ReasoningBudget {
 public:
  /// `tokenizer` must outlive it.
  ReasoningBudget(const Tokenizer& tokenizer, const ReasoningLimit& limit);

  /// Returns the token that must come next, whatever the logits are; -1: any.
  int32_t forced() const { return queue_.empty() ? -1 : queue_.front(); }
  /// Returns how many tokens can be sampled before one may have to be forced: 1 or more.
  int64_t free_tokens() const;
  /// Records a token of the answer with the text that it completed.
  void accept(std::string_view text);

 private:
  void check();

  const Tokenizer& tokenizer_;
  AnswerParser parser_;
  int64_t left_;
  bool done_ = false;
  std::deque<int32_t> queue_;
};

}  // namespace veery
