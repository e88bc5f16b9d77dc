#include "schedule/job.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/clock.h"
#include "base/error.h"
#include "sample/sampler.h"

namespace veery {
namespace {

constexpr int32_t kScoredRows = 64;  // bounds the memory of the logits if every row needs them

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
    : tokenizer_(model.tokenizer()),
      ticket_(std::move(ticket)),
      tokens_(ticket_->request().prompt),
      sampler_(ticket_->request().options.sampling),
      rules_(model.tokenizer(), ticket_->request().options),
      text_(model.tokenizer(), ticket_->request().options),
      start_(seconds_now()) {
  begin_grammar();
  if (!request().choices.empty()) choices_.emplace(request().choices);
  if (request().reasoning) budget_.emplace(tokenizer_, *request().reasoning);
}

Job::~Job() {
  if (finished_) return;
  std::exception_ptr error;
  try {
    throw Error(ErrorKind::kBug, "the scheduler dropped the request");
  } catch (...) {  // or no memory for the message
    error = std::current_exception();
  }
  finish(std::move(error));
}

// An error while a token is sampled ends this answer alone.
template <typename Use>
void Job::guarded(const Use& use) {
  if (failure_) return;
  try {
    use();
  } catch (...) {
    failure_ = std::current_exception();
  }
}

void Job::begin_grammar() {
  if (grammar_ || !request().grammar) return;
  const std::string& after = request().grammar_after;
  if (after.empty() || result_.text.find(after) != std::string::npos)
    grammar_ = std::make_unique<GrammarState>(request().grammar);
}

int32_t Job::draw(std::span<const float> logits, std::span<const int32_t> history) {
  if (!grammar_ && !ruled()) return sampler_.sample(logits, history);
  masked_.assign(logits.begin(), logits.end());
  if (grammar_) grammar_->mask(masked_);
  if (ruled()) {
    std::vector<float> both = masked_;
    rules_.mask(history.subspan(request().prompt.size()), std::span<float>(both));
    // The grammar takes precedence if the rules forbid all that it allows.
    if (std::ranges::any_of(both, [](float logit) { return std::isfinite(logit); }))
      masked_ = std::move(both);
  }
  const int32_t id = sampler_.sample(masked_, history);
  if (grammar_) grammar_->accept(id);
  return id;
}

bool Job::ruled() const {
  return rules_.active(static_cast<int64_t>(known()) - std::ssize(request().prompt));
}

Wants Job::wants() const {
  if (request().logprobs >= 0 || choices_ || ruled()) return Wants::kLogits;
  return grammar_ ? std::max(wants_of(sampler_), Wants::kTop) : wants_of(sampler_);
}

// Sample nothing after the first draft token that the grammar rejects.
void Job::fill(const TokenMaskRows& rows) {
  for (int32_t i = 0; i < rows.count(); ++i) rows.allow_all(i);
  guarded([&] { fill_rows(rows); });
}

void Job::fill_rows(const TokenMaskRows& rows) {
  const std::span<const int32_t> draft = std::span(tokens_).last(static_cast<size_t>(drafted_));
  int32_t taken = 0;
  for (int32_t i = 0; i < rows.count(); ++i) {
    if (i > taken || !grammar_->mask(rows.bits(i))) rows.allow_all(i);
    if (i == taken && i < drafted_ && grammar_->takes(draft[static_cast<size_t>(i)])) ++taken;
  }
  grammar_->take_back(taken);
}

int32_t Job::positions(int32_t context) const {
  const auto prompt = static_cast<int64_t>(request().prompt.size());
  int64_t most = choices_ ? 0 : std::min<int64_t>(request().options.max_tokens, context);
  for (const auto& choice : request().choices) most = std::max(most, std::ssize(choice));
  return static_cast<int32_t>(std::min<int64_t>(prompt + most, context));
}

void Job::count_prompt(int32_t reused) {
  result_.reused_tokens = static_cast<size_t>(reused);
  result_.prompt_tokens = request().prompt.size() - result_.reused_tokens;
  ticket_->note({.prompt = std::ssize(request().prompt), .cached = reused});
}

int64_t Job::take_fresh() {
  const int64_t made = std::ssize(result_.ids);
  return made - std::exchange(counted_, made);
}

int32_t Job::draft_room(int32_t context) const {
  if (prompting() || request().logprobs >= 0 || (request().grammar && !grammar_) || ruled())
    return 0;
  int64_t room = std::min<int64_t>(text_.room(), context - std::ssize(tokens_)) - 1;
  if (budget_) room = std::min(room, budget_->free_tokens() - 1);
  return static_cast<int32_t>(std::clamp<int64_t>(room, 0, kMostDrafted));
}

std::optional<ChainRow> Job::chain_row(int32_t most, int32_t context) const {
  if (chain_wait_ > 0 || prompting() || drafted_ > 0 || request().logprobs >= 0 ||
      request().grammar || ruled())
    return {};
  auto room = std::min<int64_t>({most, text_.room(), context - std::ssize(tokens_)});
  if (budget_) room = budget_->forced() >= 0 ? 0 : std::min(room, budget_->free_tokens());
  if (room < 1) return {};
  std::optional<ChainRow> row = sampler_.chain_row(tokens(), static_cast<int32_t>(room));
  const std::vector<int32_t>& ends = tokenizer_.special().ends;
  if (row && !request().options.ignore_eos)
    row->stops = std::span(ends).first(std::min<size_t>(ends.size(), ChainRow::kMostStops));
  return row;
}

// A chain ends early if the filters leave more candidates than the device returns. The next chains
// would probably end early too, so the job pauses chaining, each time for longer.
void Job::take_chain(const ChainRow& row, std::span<const int32_t> made) {
  constexpr int32_t kLongestPause = 63;
  const bool stopped =
      !made.empty() && std::ranges::find(row.stops, made.back()) != row.stops.end();
  const bool whole = stopped || std::ssize(made) == row.most;
  chain_pause_ = whole ? chain_pause_ / 2 : std::min(2 * chain_pause_ + 1, kLongestPause);
  if (!whole) chain_wait_ = chain_pause_ + 1;  // settle() counts this step too
  if (made.size() > 1) set_draft(made.first(made.size() - 1), DraftSource::kChain);
}

// If the tokenizer adds a space to the beginning of a text, the forced text must begin with one.
std::span<const int32_t> Job::forced(int32_t most) {
  forced_.clear();
  if (!grammar_ || failure_) return forced_;
  std::string text;
  guarded([&] { text = grammar_->forced_text(); });
  const bool spaced = tokenizer_.adds_space();
  if (text.empty() || (spaced && text.front() != ' ')) return forced_;
  forced_ = tokenizer_.encode(std::string_view(text).substr(spaced ? 1 : 0),
                              {.add_special = false, .parse_special = false});
  return std::span(forced_).first(std::min(forced_.size(), static_cast<size_t>(most)));
}

void Job::set_draft(std::span<const int32_t> ids, DraftSource source) {
  source_ = source;
  drafted_ = static_cast<int32_t>(ids.size());
  tokens_.insert(tokens_.end(), ids.begin(), ids.end());
}

RunPart Job::part(int32_t most) const {
  if (drafted_ > 0)
    return {sequence, std::span(tokens_).last(static_cast<size_t>(drafted_) + 1), drafted_ + 1,
            wants()};
  if (trying()) {
    const std::span<const int32_t> ids = choices_->next(std::min(most, kScoredRows));
    return {sequence, ids, static_cast<int32_t>(ids.size())};
  }
  const auto rest = static_cast<int32_t>(known()) - run;
  const bool scored = scores_prompt();
  const int32_t count = std::min({rest, most, scored ? kScoredRows : most});
  const auto ids = std::span(tokens_).subspan(static_cast<size_t>(run), static_cast<size_t>(count));
  return {sequence, ids, scored ? count : count == rest ? 1 : 0, wants()};
}

void Job::score_prompt(const Session& session, int32_t first_output, const RunPart& part) {
  if (prompt_scores_.empty()) prompt_scores_.emplace_back();  // the first token has no score
  for (int32_t i = 0; i < part.outputs; ++i) {
    const auto next = static_cast<size_t>(run + i + 1);
    if (next >= request().prompt.size() || next < prompt_scores_.size()) continue;
    prompt_scores_.push_back(
        score_token(session.logits(first_output + i), request().prompt[next], request().logprobs));
  }
}

void Job::score_choices(const Session& session, int32_t first_output, const RunPart& part) {
  if (!trying()) return choices_->score_prompt(session.logits(first_output));
  for (int32_t i = 0; i < part.outputs; ++i)
    choices_->score(static_cast<size_t>(i), session.logits(first_output + i));
  within_choice_ = !choices_->ends_with(part.ids.size());
  choices_->advance(part.ids.size());
}

void Job::choose(const Session& session, int32_t first_output, const RunPart& part) {
  chosen_.clear();
  guarded([&] { choose_tokens(session, first_output, part); });
}

void Job::choose_tokens(const Session& session, int32_t first_output, const RunPart& part) {
  if (choices_) return score_choices(session, first_output, part);
  const bool tests = drafted_ > 0;
  if (!tests && (part.outputs > 1 || wants_prompt_scores()))
    score_prompt(session, first_output, part);
  const bool last = static_cast<size_t>(run) + part.ids.size() == tokens_.size();
  if (!last || text_.over() || request().options.max_tokens <= 0) return;
  for (int32_t output = tests ? 0 : part.outputs - 1; output < part.outputs; ++output) {
    const auto next =
        static_cast<size_t>(run) + part.ids.size() - static_cast<size_t>(part.outputs - output - 1);
    ScoredToken chosen =
        choose_token(session, first_output + output, part.wants, std::span(tokens_).first(next));
    const bool right = next < tokens_.size() && tokens_[next] == chosen.token.id;
    chosen_.push_back(std::move(chosen));
    if (!right || (grammar_ && grammar_->over())) break;
  }
}

ScoredToken Job::choose_token(const Session& session, int32_t output, Wants wants,
                              std::span<const int32_t> history) {
  if (const int32_t id = budget_ ? budget_->forced() : -1; id >= 0) {
    // The end of a forced text may come after the grammar has begun, and is not part of it.
    if (grammar_) grammar_->takes(id);
    if (request().logprobs < 0) return {{id, 0}, {}};
    return score_token(session.logits(output), id, request().logprobs);
  }
  const bool all = wants == Wants::kLogits || (grammar_ && !session.masked());
  if (!all || session.chained()) {
    const int32_t id = veery::draw(session, output, sampler_, history);
    if (grammar_) grammar_->accept(id);
    return {{id, 0}, {}};
  }
  const std::span<const float> logits = session.logits(output);
  const int32_t id = draw(logits, history);
  if (request().logprobs >= 0) return score_token(logits, id, request().logprobs);
  return {{id, 0}, {}};
}

int32_t Job::accepted(const RunPart& part) const {
  if (trying()) return 0;
  return drafted_ > 0 ? static_cast<int32_t>(chosen_.size())
                      : static_cast<int32_t>(part.ids.size());
}

void Job::settle(int32_t count) {
  model_rate_.step();
  grammar_rate_.step();
  chain_wait_ = std::max(chain_wait_ - 1, 0);
  if (drafted_ > 0 && !chosen_.empty() && source_ != DraftSource::kChain) {
    const auto accepted = static_cast<int32_t>(chosen_.size()) - 1;
    result_.drafted_tokens += static_cast<size_t>(drafted_);
    result_.accepted_tokens += static_cast<size_t>(accepted);
    if (source_ == DraftSource::kModel) model_rate_.record(accepted, drafted_);
    if (source_ == DraftSource::kGrammar) grammar_rate_.record(accepted, drafted_);
  }
  tokens_.resize(known());
  drafted_ = 0;
  run += count;
}

void Job::restart() {
  settle(0);
  run = 0;
  within_choice_ = false;
  if (choices_) choices_->restart();
}

bool Job::deliver(int32_t context) {
  if (choices_) return choices_->over();
  if (text_.over()) return true;
  if (request().options.max_tokens <= 0 && !prompting() && run == std::ssize(tokens_)) return true;
  bool over = false;
  for (size_t i = 0; i < chosen_.size() && !over; ++i)
    over = deliver(chosen_[i]) || std::ssize(tokens_) >= context;
  chosen_.clear();
  return over;
}

// Returns true if the answer is over.
bool Job::deliver(ScoredToken& chosen) {
  if (result_.ids.empty()) prompted_ = seconds_now();
  const int32_t id = chosen.token.id;
  result_.ids.push_back(id);
  ticket_->note_token(prompted_ - start_);
  tokens_.push_back(id);
  AnswerPart piece{text_.accept(id), {}};
  result_.text += piece.text;
  if (budget_) budget_->accept(piece.text);
  begin_grammar();
  if (request().logprobs >= 0) piece.scores.push_back(std::move(chosen));
  ticket_->push(std::move(piece));
  return text_.over();
}

void Job::finish(std::exception_ptr error) noexcept {
  if (std::exchange(finished_, true)) return;
  try {
    fill_result();
  } catch (...) {
    if (!error) error = std::current_exception();
  }
  ticket_->finish(std::move(error));
}

void Job::fill_result() {
  AnswerPart rest{text_.finish(), {}};
  result_.text += rest.text;
  ticket_->push(std::move(rest));
  const double now = seconds_now();
  result_.finish = text_.reason();
  result_.stop = text_.stop();
  result_.stop_id = text_.stop_id();
  const size_t ran = std::min(static_cast<size_t>(run), request().prompt.size());
  result_.prompt_tokens = ran > result_.reused_tokens ? ran - result_.reused_tokens : 0;
  if (result_.ids.empty()) prompted_ = now;
  result_.prompt_seconds = prompted_ - start_;
  result_.decode_seconds = now - prompted_;
  ticket_->result_ = result_;
  ticket_->prompt_scores_ = std::move(prompt_scores_);
  if (choices_) ticket_->choice_scores_ = choices_->logprobs();
}

}  // namespace veery
