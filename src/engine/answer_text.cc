#include "engine/answer_text.h"

#include <algorithm>

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
  return detokenizer_.push(
      id, options_.show_special || (marked && options_.marks.shows(tokenizer_.token(id))));
}

void AnswerText::end(FinishReason reason) {
  reason_ = reason;
  over_ = true;
}

std::string AnswerText::accept(int32_t id) {
  ++made_;
  const bool early = made_ <= options_.min_tokens;
  const bool stops = std::ranges::find(options_.stop_ids, id) != options_.stop_ids.end();
  if (!early && (stops || (!options_.ignore_eos && tokenizer_.ends(id)))) {
    end(FinishReason::kStop);
    if (!stops) return {};
    stop_id_ = id;
    return options_.keep_stop ? stops_.finish() + detokenizer_.push(id, true) : std::string();
  }
  std::string text = early ? text_of(id) : stops_.push(text_of(id));
  if (stops_.stopped() && options_.keep_stop) text += stops_.stop();
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
  if (stops_.stopped() && options_.keep_stop) rest += stops_.stop();
  if (stops_.stopped()) end(FinishReason::kStop);
  return rest;
}

}  // namespace veery
