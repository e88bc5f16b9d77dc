#include "engine/answer_text.h"

namespace veery {

std::string_view name(FinishReason reason) {
  switch (reason) {
    case FinishReason::kStop: return "stop";
    case FinishReason::kLength: return "length";
    case FinishReason::kCancelled: return "cancelled";
  }
  return "";
}

AnswerText::AnswerText(const Tokenizer& tokenizer, const GenerateOptions& options)
    : tokenizer_(tokenizer),
      options_(options),
      detokenizer_(tokenizer, false, !options.drop_first_space),
      stops_(options.stops) {}

std::string AnswerText::text_of(int32_t id) {
  const bool marked = !options_.marks.features().empty();
  return detokenizer_.push(id, marked && options_.marks.shows(tokenizer_.token(id)));
}

void AnswerText::end(FinishReason reason) {
  reason_ = reason;
  over_ = true;
}

std::string AnswerText::accept(int32_t id) {
  ++made_;
  if (!options_.ignore_eos && tokenizer_.ends(id)) {
    end(FinishReason::kStop);
    return {};
  }
  std::string text = stops_.push(text_of(id));
  if (stops_.stopped())
    end(FinishReason::kStop);
  else if (room() <= 0)
    end(FinishReason::kLength);
  return text;
}

std::string AnswerText::finish() {
  if (reason_ == FinishReason::kCancelled || stops_.stopped()) return {};
  std::string rest = stops_.push(detokenizer_.finish());
  rest += stops_.finish();
  if (stops_.stopped()) end(FinishReason::kStop);
  return rest;
}

}  // namespace veery
