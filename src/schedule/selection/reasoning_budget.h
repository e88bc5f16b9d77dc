// reasoning_budget.h: ends the reasoning of an answer after a number of tokens.
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
  int64_t tokens = 0;   ///< of reasoning; marks around it do not count
};

/// Follows an answer. Once the limit is reached it forces the tokens of the text that ends the
/// reasoning; after that, and once content or a call has begun, it forces nothing.
class ReasoningBudget {
 public:
  /// `tokenizer` must outlive it.
  ReasoningBudget(const Tokenizer& tokenizer, const ReasoningLimit& limit);

  /// The next token, whatever the logits are; -1: it is free.
  int32_t forced() const { return queue_.empty() ? -1 : queue_.front(); }
  /// Tokens that can be made before one may have to be forced: 1 or more.
  int64_t free_tokens() const;
  /// Takes a token of the answer, with the text that became certain by it.
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
