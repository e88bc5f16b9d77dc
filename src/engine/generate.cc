#include "engine/generate.h"

#include <algorithm>
#include <array>

#include "base/clock.h"
#include "base/error.h"
#include "text/tokenizer.h"

namespace veery {

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

// Keeps what an answer gives and hands its text out.
class Generator::Answer {
 public:
  Answer(const Tokenizer& tokenizer, const GenerateOptions& options, const OnText& on_text,
         Generation& result)
      : text_(tokenizer, options), on_text_(on_text), result_(result) {}

  /// True when the answer is over.
  bool accept(int32_t id) {
    result_.ids.push_back(id);
    show(text_.accept(id));
    result_.finish = text_.reason();
    return over();
  }
  int64_t room() const { return text_.room(); }
  bool over() const { return text_.over(); }

  void finish() {
    if (result_.finish == FinishReason::kCancelled) return;
    if (const std::string rest = text_.finish(); !rest.empty()) {
      result_.text += rest;
      if (on_text_) on_text_(rest);
    }
    result_.finish = text_.reason();
  }

 private:
  void show(const std::string& text) {
    result_.text += text;
    const bool said = !text.empty() || !text_.over();
    if (said && on_text_ && !on_text_(text)) text_.cancel();
  }

  AnswerText text_;
  const OnText& on_text_;
  Generation& result_;
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
