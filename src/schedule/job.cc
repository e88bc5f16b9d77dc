#include "schedule/job.h"

#include <algorithm>
#include <utility>

#include "base/clock.h"
#include "base/error.h"
#include "sample/sampler.h"

namespace veery {
namespace {

constexpr int32_t kScoredRows = 64;  // bounds the memory of logits wanted for every row

}  // namespace

ScoredToken score_token(std::span<const float> logits, int32_t id, int32_t top) {
  const auto mass = static_cast<float>(log_sum_exp(logits));
  const auto chance = [&](int32_t token) {
    return TokenChance{token, logits[static_cast<size_t>(token)] - mass};
  };
  ScoredToken scored{chance(id), {}};
  const auto count = std::min(static_cast<size_t>(std::max(top, 0)), logits.size());
  if (count == 0) return scored;
  std::vector<int32_t> best;
  const auto before = [&](int32_t a, int32_t b) {
    const float x = logits[static_cast<size_t>(a)], y = logits[static_cast<size_t>(b)];
    return x > y || (x == y && a < b);
  };
  for (int32_t token = 0; token < static_cast<int32_t>(logits.size()); ++token) {
    if (best.size() == count && !before(token, best.back())) continue;
    best.insert(std::upper_bound(best.begin(), best.end(), token, before), token);
    if (best.size() > count) best.pop_back();
  }
  for (const int32_t token : best) scored.top.push_back(chance(token));
  return scored;
}

Job::Job(const Model& model, std::shared_ptr<Ticket> ticket)
    : ticket_(std::move(ticket)),
      tokens_(ticket_->request().prompt),
      sampler_(ticket_->request().options.sampling),
      text_(model.tokenizer(), ticket_->request().options),
      start_(seconds_now()) {
  begin_grammar();
}

void Job::begin_grammar() {
  if (grammar_ || !request().grammar) return;
  const std::string& after = request().grammar_after;
  if (after.empty() || result_.text.find(after) != std::string::npos)
    grammar_ = std::make_unique<GrammarState>(request().grammar);
}

int32_t Job::draw(std::span<const float> logits) {
  if (!grammar_) return sampler_.sample(logits, tokens_);
  masked_.assign(logits.begin(), logits.end());
  grammar_->mask(masked_);
  const int32_t id = sampler_.sample(masked_, tokens_);
  grammar_->accept(id);
  return id;
}

int32_t Job::positions(int32_t context) const {
  const auto prompt = static_cast<int64_t>(request().prompt.size());
  const int64_t most = std::min<int64_t>(request().options.max_tokens, context);
  return static_cast<int32_t>(std::min<int64_t>(prompt + most, context));
}

void Job::count_prompt(int32_t reused) {
  result_.reused_tokens = static_cast<size_t>(reused);
  result_.prompt_tokens = request().prompt.size() - result_.reused_tokens;
}

RunPart Job::part(int32_t most) const {
  const auto rest = static_cast<int32_t>(tokens_.size()) - run;
  const bool scored = wants_prompt_scores() && run < std::ssize(request().prompt);
  const int32_t count = std::min({rest, most, scored ? kScoredRows : most});
  const auto ids = std::span(tokens_).subspan(static_cast<size_t>(run), static_cast<size_t>(count));
  return {sequence, ids, scored ? count : count == rest ? 1 : 0};
}

void Job::score_prompt(const Runner& runner, int32_t first_output, const RunPart& part) {
  if (prompt_scores_.empty()) prompt_scores_.emplace_back();  // nothing is before the first
  for (int32_t i = 0; i < part.outputs; ++i) {
    const auto next = static_cast<size_t>(run + i + 1);
    if (next >= request().prompt.size() || next < prompt_scores_.size()) continue;
    prompt_scores_.push_back(
        score_token(runner.logits(first_output + i), request().prompt[next], request().logprobs));
  }
}

void Job::choose(const Runner& runner, int32_t first_output, const RunPart& part, bool greedy) {
  if (part.outputs > 1 || wants_prompt_scores()) score_prompt(runner, first_output, part);
  chosen_ = {};
  const bool last = static_cast<size_t>(run) + part.ids.size() == tokens_.size();
  if (!last || text_.over() || request().options.max_tokens <= 0) return;
  if (greedy) {
    chosen_.token.id = runner.best(first_output);
    return;
  }
  const std::span<const float> logits = runner.logits(first_output + part.outputs - 1);
  chosen_.token.id = draw(logits);
  if (request().logprobs >= 0) chosen_ = score_token(logits, chosen_.token.id, request().logprobs);
}

bool Job::deliver(int32_t context) {
  if (text_.over()) return true;
  if (request().options.max_tokens <= 0 && !prompting() && run == std::ssize(tokens_)) return true;
  if (chosen_.token.id < 0) return false;
  if (result_.ids.empty()) prompted_ = seconds_now();
  const int32_t id = chosen_.token.id;
  result_.ids.push_back(id);
  tokens_.push_back(id);
  AnswerPart piece{text_.accept(id), {}};
  result_.text += piece.text;
  begin_grammar();
  if (request().logprobs >= 0) piece.scores.push_back(std::move(chosen_));
  ticket_->push(std::move(piece));
  chosen_ = {};
  return text_.over() || run >= context;
}

void Job::finish(std::exception_ptr error) {
  AnswerPart rest{text_.finish(), {}};
  result_.text += rest.text;
  ticket_->push(std::move(rest));
  const double now = seconds_now();
  result_.finish = text_.reason();
  const size_t ran = std::min(static_cast<size_t>(run), request().prompt.size());
  result_.prompt_tokens = ran > result_.reused_tokens ? ran - result_.reused_tokens : 0;
  if (result_.ids.empty()) prompted_ = now;
  result_.prompt_seconds = prompted_ - start_;
  result_.decode_seconds = now - prompted_;
  ticket_->result_ = result_;
  ticket_->prompt_scores_ = std::move(prompt_scores_);
  ticket_->finish(std::move(error));
}

}  // namespace veery
