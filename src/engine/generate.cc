#include "engine/generate.h"

#include <algorithm>
#include <array>

#include "base/clock.h"
#include "base/error.h"
#include "sample/stop_filter.h"
#include "text/tokenizer.h"

namespace veery {

std::string_view name(FinishReason reason) {
  switch (reason) {
    case FinishReason::kStop: return "stop";
    case FinishReason::kLength: return "length";
    case FinishReason::kCancelled: return "cancelled";
  }
  return "";
}

SamplerOptions recommended_sampling(const Metadata& metadata, const SamplerOptions& defaults) {
  SamplerOptions options = defaults;
  const auto set = [&](const char* key, float& value) {
    if (const auto found = metadata.number(key)) value = static_cast<float>(*found);
  };
  const auto set_count = [&](const char* key, int32_t& value) {
    if (const auto found = metadata.integer(key)) value = static_cast<int32_t>(*found);
  };
  set("general.sampling.temp", options.temperature);
  set("general.sampling.top_p", options.top_p);
  set("general.sampling.min_p", options.min_p);
  set_count("general.sampling.top_k", options.top_k);
  set("general.sampling.penalty_repeat", options.repeat_penalty);
  set_count("general.sampling.penalty_last_n", options.repeat_last_n);
  return options;
}

double Generation::prompt_rate() const {
  return prompt_seconds > 0 ? static_cast<double>(prompt_tokens) / prompt_seconds : 0;
}

double Generation::decode_rate() const {
  if (ids.size() < 2 || decode_seconds <= 0) return 0;
  return static_cast<double>(ids.size() - 1) / decode_seconds;
}

// Turns tokens into text as they come and decides when the answer is over.
class Generator::Answer {
 public:
  Answer(const Tokenizer& tokenizer, const GenerateOptions& options, const OnText& on_text,
         Generation& result)
      : tokenizer_(tokenizer),
        options_(options),
        on_text_(on_text),
        result_(result),
        detokenizer_(tokenizer, false, !options.drop_first_space),
        stops_(options.stops) {}

  /// True when the answer is over.
  bool accept(int32_t id) {
    result_.ids.push_back(id);
    if (!options_.ignore_eos && tokenizer_.ends(id)) return end(FinishReason::kStop);
    if (!show(stops_.push(text_of(id)))) return end(FinishReason::kCancelled);
    if (stops_.stopped()) return end(FinishReason::kStop);
    if (room() == 0) return end(FinishReason::kLength);
    return false;
  }
  int64_t room() const { return options_.max_tokens - static_cast<int64_t>(result_.ids.size()); }
  bool over() const { return over_; }

  void finish() {
    if (result_.finish == FinishReason::kCancelled || stops_.stopped()) return;
    std::string rest = stops_.push(detokenizer_.finish());
    rest += stops_.finish();
    if (!rest.empty()) show(rest);
    if (stops_.stopped()) result_.finish = FinishReason::kStop;
  }

 private:
  std::string text_of(int32_t id) {
    const bool marked = !options_.marks.features().empty();
    return detokenizer_.push(id, marked && options_.marks.shows(tokenizer_.token(id)));
  }
  bool show(const std::string& text) {
    result_.text += text;
    return !on_text_ || on_text_(text);
  }
  bool end(FinishReason reason) {
    result_.finish = reason;
    over_ = true;
    return true;
  }

  const Tokenizer& tokenizer_;
  const GenerateOptions& options_;
  const OnText& on_text_;
  Generation& result_;
  Detokenizer detokenizer_;
  StopFilter stops_;
  bool over_ = false;
};

Generation Generator::generate(std::span<const int32_t> prompt, const GenerateOptions& options,
                               const OnText& on_text) {
  if (prompt.empty())
    throw Error(ErrorKind::kInput, "the prompt is empty: there is no token to begin with");
  if (prompt.size() > static_cast<size_t>(session_.context()))
    throw Error(ErrorKind::kLimit, "the prompt has {} tokens, the context holds {}", prompt.size(),
                session_.context());
  Generation result;
  Answer answer(model_.tokenizer(), options, on_text, result);
  const double start = seconds_now();
  result.reused_tokens = reuse(prompt);
  const auto rest = prompt.subspan(result.reused_tokens);
  result.prompt_tokens = session_.feed(rest, [&] { return !on_text || on_text({}); });
  session_.save();  // the next prompt may go another way from here on
  const auto done = rest.first(result.prompt_tokens);
  fed_.insert(fed_.end(), done.begin(), done.end());
  const double fed = seconds_now();
  result.prompt_seconds = fed - start;
  if (done.size() < rest.size())
    result.finish = FinishReason::kCancelled;
  else if (options.max_tokens > 0)
    decode(prompt, options, answer);
  answer.finish();
  result.decode_seconds = seconds_now() - fed;
  return result;
}

// How many tokens of the prompt need not be run. The last one always is: its logits are wanted.
size_t Generator::reuse(std::span<const int32_t> prompt) {
  if (static_cast<size_t>(session_.position()) != fed_.size())
    fed_.clear();  // a run was broken off
  const auto limit = std::min(fed_.size(), prompt.size() - 1);
  const auto same = static_cast<size_t>(
      std::mismatch(fed_.begin(), fed_.begin() + static_cast<ptrdiff_t>(limit), prompt.begin())
          .first -
      fed_.begin());
  const int32_t kept = session_.nearest(static_cast<int32_t>(same));
  fed_.resize(static_cast<size_t>(kept));
  session_.rewind(kept);
  return fed_.size();
}

void Generator::decode(std::span<const int32_t> prompt, const GenerateOptions& options,
                       Answer& answer) {
  Sampler sampler(options.sampling);
  if (sampler.greedy()) {
    const int32_t token = argmax(session_.logits());
    if (!answer.accept(token)) decode_greedy(token, answer);
    return;
  }
  std::vector<int32_t> history(prompt.begin(), prompt.end());
  const int32_t token = sampler.sample(session_.logits(), history);
  if (!answer.accept(token)) decode_sampled(token, sampler, history, answer);
}

void Generator::decode_greedy(int32_t token, Answer& answer) {
  std::array<int32_t, 64> made;
  while (!answer.over() && session_.position() < session_.context()) {
    const auto most = static_cast<size_t>(std::min<int64_t>(made.size(), answer.room()));
    const size_t count = session_.decode_greedy(token, std::span(made).first(most),
                                                [&](int32_t id) { return answer.accept(id); });
    fed_.push_back(token);
    fed_.insert(fed_.end(), made.begin(), made.begin() + static_cast<ptrdiff_t>(count) - 1);
    token = made[count - 1];
  }
}

void Generator::decode_sampled(int32_t token, Sampler& sampler, std::vector<int32_t>& history,
                               Answer& answer) {
  while (!answer.over() && session_.position() < session_.context()) {
    session_.feed({&token, 1});
    fed_.push_back(token);
    history.push_back(token);
    token = sampler.sample(session_.logits(), history);
    answer.accept(token);
  }
}

}  // namespace veery
