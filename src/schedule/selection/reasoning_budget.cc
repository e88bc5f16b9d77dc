#include "schedule/selection/reasoning_budget.h"

#include <algorithm>

namespace veery {

ReasoningBudget::ReasoningBudget(const Tokenizer& tokenizer, const ReasoningLimit& limit)
    : tokenizer_(tokenizer), parser_(limit.parser), left_(limit.tokens) {
  check();
}

int64_t ReasoningBudget::free_tokens() const {
  if (!queue_.empty()) return 1;
  return done_ ? std::numeric_limits<int64_t>::max() : std::max<int64_t>(left_, 1);
}

void ReasoningBudget::accept(std::string_view text) {
  if (!queue_.empty()) {
    queue_.pop_front();
    return;
  }
  if (done_) return;
  if (parser_.reasoning()) --left_;
  parser_.push(text);
  const ParsedAnswer& answer = parser_.answer();
  done_ = !answer.content.empty() || !answer.calls.empty();
  check();
}

void ReasoningBudget::check() {
  if (done_ || left_ > 0 || !parser_.reasoning()) return;
  std::string text = parser_.reasoning_close();
  // Templates put such marks on their own line. A tokenizer that adds a space to the beginning of a
  // text would put it before the line break.
  if (text.starts_with("</") && !tokenizer_.adds_space()) text.insert(0, "\n");
  for (const int32_t id : tokenizer_.encode(text, {.add_special = false})) queue_.push_back(id);
  done_ = true;
}

}  // namespace veery
