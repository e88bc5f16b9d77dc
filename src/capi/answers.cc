// Answers as they are made.
#include <cmath>
#include <utility>

#include "capi/handles.h"
#include "chat/chat.h"
#include "engine/sequence_breakers.h"
#include "sample/sampler.h"

namespace veery::capi {
namespace {

constexpr double kMostSeconds = 1e8;  // clocks hold it

using Given = veery_generate_options;
using Ours = SamplerOptions;

constexpr std::pair<float Given::*, float Ours::*> kNumbers[] = {
    {&Given::temperature, &Ours::temperature},
    {&Given::top_p, &Ours::top_p},
    {&Given::min_p, &Ours::min_p},
    {&Given::typical_p, &Ours::typical_p},
    {&Given::top_n_sigma, &Ours::top_n_sigma},
    {&Given::repeat_penalty, &Ours::repeat_penalty},
    {&Given::frequency_penalty, &Ours::frequency_penalty},
    {&Given::presence_penalty, &Ours::presence_penalty},
    {&Given::dynatemp_range, &Ours::dynatemp_range},
    {&Given::dynatemp_exponent, &Ours::dynatemp_exponent},
    {&Given::xtc_probability, &Ours::xtc_probability},
    {&Given::xtc_threshold, &Ours::xtc_threshold},
    {&Given::dry_multiplier, &Ours::dry_multiplier},
    {&Given::dry_base, &Ours::dry_base},
    {&Given::mirostat_tau, &Ours::mirostat_tau},
    {&Given::mirostat_eta, &Ours::mirostat_eta},
};
constexpr std::pair<int32_t Given::*, int32_t Ours::*> kCounts[] = {
    {&Given::top_k, &Ours::top_k},
    {&Given::repeat_last_n, &Ours::repeat_last_n},
    {&Given::dry_allowed_length, &Ours::dry_allowed_length},
    {&Given::dry_last_n, &Ours::dry_last_n},
    {&Given::mirostat, &Ours::mirostat},
};

void add_bias(const veery_generate_options& given, const LoadedModel& model,
              SamplerOptions& sampling) {
  if (given.bias_count > 0) required(given.bias, "veery_generate_options: bias");
  const int64_t vocab = model.model().config().vocab;
  for (size_t i = 0; i < given.bias_count; ++i) {
    const veery_bias& bias = given.bias[i];
    if (bias.id < 0 || bias.id >= vocab || !(std::abs(bias.value) <= kMostBias))
      throw Error(ErrorKind::kInput,
                  "veery_generate_options: bias[{}] is {} for token {}, expected -{} to {} for a "
                  "token of 0 to {}",
                  i, bias.value, bias.id, kMostBias, kMostBias, vocab - 1);
    sampling.bias.push_back({bias.id, bias.value});
  }
}

void hold(GenerateRequest& request, const veery_generate_options& given, LoadedModel& model) {
  const int forms =
      (given.json_schema != nullptr) + (given.regex != nullptr) + (given.grammar != nullptr);
  if (forms > 1)
    throw Error(ErrorKind::kInput,
                "veery_generate_options: found {} of json_schema, regex and grammar, expected one "
                "at most",
                forms);
  if (given.json_schema != nullptr)
    request.grammar = model.grammars().json_schema(parse_json(given.json_schema, "json_schema"));
  if (given.regex != nullptr) request.grammar = model.grammars().regex(given.regex);
  if (given.grammar != nullptr) request.grammar = model.grammars().ebnf(given.grammar);
}

veery_token to_c(const TokenChance& chance) { return {chance.id, chance.logprob}; }

veery_finish to_c(FinishReason reason) {
  switch (reason) {
    case FinishReason::kStop: return VEERY_FINISH_STOP;
    case FinishReason::kLength: return VEERY_FINISH_LENGTH;
    case FinishReason::kCancelled: return VEERY_FINISH_CANCELLED;
  }
  return VEERY_FINISH_NONE;
}

}  // namespace

veery_generate_options default_options(const LoadedModel* model) {
  SamplerOptions sampling;
  if (model != nullptr) sampling = recommended_sampling(model->model().file().metadata);
  veery_generate_options result{};
  result.size = sizeof result;
  result.max_tokens = -1;
  for (const auto& [given, own] : kNumbers) result.*given = sampling.*own;
  for (const auto& [given, own] : kCounts) result.*given = sampling.*own;
  result.logprobs = -1;
  return result;
}

GenerateOptions read_options(const LoadedModel& model, const veery_generate_options& given) {
  GenerateOptions options;
  SamplerOptions& sampling = options.sampling;
  for (const auto& [member, own] : kNumbers) sampling.*own = given.*member;
  for (const auto& [member, own] : kCounts) sampling.*own = given.*member;
  sampling.seed = given.seed;
  if (sampling.dry_multiplier > 0)
    sampling.dry_breakers = sequence_breakers(
        model.model().tokenizer(), model.model().config().vocab, usual_sequence_breakers());
  add_bias(given, model, sampling);
  if (given.max_tokens >= 0) options.max_tokens = given.max_tokens;
  options.stops = texts_of(given.stops, given.stop_count, "veery_generate_options: stops");
  options.ignore_eos = given.ignore_eos != 0;
  return options;
}

std::unique_ptr<veery_answer> start(const std::shared_ptr<LoadedModel>& model,
                                    std::vector<int32_t> ids, const veery_generate_options* options,
                                    const RenderedConversation* chat, bool whole) {
  model->require(Makes::kTexts);
  const auto given = options_or(options, default_options(model.get()), "veery_generate_options");
  if (given.logprobs < -1 || given.logprobs > 1000)
    throw Error(ErrorKind::kInput, "veery_generate_options: logprobs is {}, expected -1 to 1000",
                given.logprobs);
  GenerateRequest request{std::move(ids), read_options(*model, given)};
  request.logprobs = given.logprobs;
  request.priority = given.priority;
  request.whole = whole;
  hold(request, given, *model);
  auto answer = std::make_unique<veery_answer>(model, nullptr);
  if (chat != nullptr) {
    request.options.marks = chat->format;
    request.options.drop_first_space = !chat->begun;
    answer->parser = std::make_unique<AnswerParser>(chat->parser);
    request.grammar_after = answer->parser->reasoning_end();
  }
  answer->ticket = model->submit(std::move(request));
  return answer;
}

}  // namespace veery::capi

using namespace veery;
using namespace veery::capi;

veery_answer::~veery_answer() {
  if (ticket && !over) ticket->cancel();
  end(false);
}

void veery_answer::end(bool whole) {
  if (over) return;
  over = true;
  if (parser) parser->finish();
  if (session) {
    const std::lock_guard lock(session->mutex);
    session->busy = false;
    const std::vector<int32_t>& made = ticket->result().ids;
    if (whole) session->ids.insert(session->ids.end(), made.begin(), made.end());
  }
  lease.release();
}

veery_status veery_answer::next(double seconds, veery_piece* given) {
  AnswerPart came;
  bool more = true;
  try {
    do more = seconds < 0 ? ticket->next(came) : ticket->next_within(came, seconds);
    while (seconds < 0 && more && came.text.empty() && came.scores.empty());
  } catch (...) {
    const std::lock_guard lock(mutex);
    end(false);
    throw;
  }
  const std::lock_guard lock(mutex);
  if (!more) {
    end(true);
    return VEERY_END;
  }
  if (came.text.empty() && came.scores.empty()) return VEERY_TIMEOUT;
  text += came.text;
  if (parser) parser->push(came.text);
  for (const ScoredToken& score : came.scores) {
    Scored& added = scores.emplace_back(Scored{to_c(score.token), {}});
    for (const TokenChance& top : score.top) added.top.push_back(to_c(top));
  }
  piece = std::move(came.text);
  *given = {piece.c_str(), piece.size()};
  return VEERY_OK;
}

veery_status veery_generate_options_init(veery_generate_options* options, size_t size,
                                         const veery_model* model) {
  return guarded([&] {
    veery_generate_options& given = required(options, "options");
    check_size<veery_generate_options>(size, "veery_generate_options");
    given = default_options(model == nullptr ? nullptr : required(model, "model").loaded.get());
    return VEERY_OK;
  });
}

veery_status veery_start(veery_model* model, const int32_t* ids, size_t count,
                         const veery_generate_options* options, veery_answer** answer) {
  return guarded([&] {
    required(answer, "answer") = nullptr;
    *answer = start(required(model, "model").loaded, ids_of(ids, count), options).release();
    return VEERY_OK;
  });
}

veery_status veery_start_chat(veery_model* model, const char* messages,
                              const veery_generate_options* options, veery_answer** answer) {
  return guarded([&] {
    required(answer, "answer") = nullptr;
    const std::shared_ptr<LoadedModel>& loaded = required(model, "model").loaded;
    loaded->require(Makes::kTexts);
    const auto given = options_or(options, default_options(loaded.get()), "veery_generate_options");
    const RenderedConversation chat = render_chat(*loaded, messages, given.variables);
    *answer = start(loaded, chat.ids, &given, &chat).release();
    return VEERY_OK;
  });
}

veery_status veery_answer_next(veery_answer* answer, double seconds, veery_piece* piece) {
  return guarded([&] {
    required(piece, "piece") = {"", 0};
    if (std::isnan(seconds)) throw Error(ErrorKind::kInput, "seconds is no number");
    return required(answer, "answer").next(std::min(seconds, kMostSeconds), piece);
  });
}

veery_status veery_answer_wait(veery_answer* answer, veery_on_piece on_piece, void* user) {
  return guarded([&] {
    veery_answer& of = required(answer, "answer");
    veery_piece piece{};
    while (of.next(-1, &piece) == VEERY_OK)
      if (on_piece != nullptr && on_piece(user, &piece) != 0) of.ticket->cancel();
    return VEERY_OK;
  });
}

void veery_answer_cancel(veery_answer* answer) {
  if (is_usable(answer)) guarded([&] { return answer->ticket->cancel(), VEERY_OK; });
}

void veery_answer_free(veery_answer* answer) { free_handle(answer); }

veery_status veery_generate(veery_model* model, const char* prompt, size_t length,
                            const veery_generate_options* options, veery_on_piece on_piece,
                            void* user, veery_answer** answer) {
  return guarded([&] {
    required(answer, "answer") = nullptr;
    const std::shared_ptr<LoadedModel>& loaded = required(model, "model").loaded;
    auto ids = encode_prompt(loaded->model().tokenizer(), text_of(prompt, length, "prompt"));
    auto made = start(loaded, std::move(ids), options);
    const veery_status status = veery_answer_wait(made.get(), on_piece, user);
    if (status == VEERY_OK) *answer = made.release();
    return status;
  });
}

const char* veery_answer_text(const veery_answer* answer, size_t* length) {
  if (length != nullptr) *length = 0;
  if (!is_usable(answer)) return "";
  const std::lock_guard lock(answer->mutex);
  if (length != nullptr) *length = answer->text.size();
  return answer->text.c_str();
}

const int32_t* veery_answer_ids(const veery_answer* answer, size_t* count) {
  if (count != nullptr) *count = 0;
  if (!is_usable(answer)) return nullptr;
  const std::lock_guard lock(answer->mutex);
  if (!answer->over) return nullptr;
  const std::vector<int32_t>& ids = answer->ticket->result().ids;
  if (count != nullptr) *count = ids.size();
  return ids.data();
}

veery_status veery_answer_get_usage(const veery_answer* answer, veery_usage* usage) {
  return guarded([&] {
    const veery_answer& of = required(answer, "answer");
    check_size<veery_usage>(required(usage, "usage").size, "veery_usage");
    veery_usage result{};
    result.size = sizeof result;
    const std::lock_guard lock(of.mutex);
    result.prompt_tokens = of.ticket->request().prompt.size();
    if (of.over) {
      const Generation& made = of.ticket->result();
      result.finish = to_c(made.finish);
      result.reused_tokens = made.reused_tokens;
      result.made_tokens = made.ids.size();
      result.prompt_seconds = made.prompt_seconds;
      result.decode_seconds = made.decode_seconds;
    }
    *usage = result;
    return VEERY_OK;
  });
}

veery_status veery_answer_logprob(const veery_answer* answer, size_t index, veery_token* token,
                                  const veery_token** top, size_t* top_count) {
  return guarded([&] {
    const veery_answer& of = required(answer, "answer");
    required(token, "token");
    const std::lock_guard lock(of.mutex);
    if (index >= of.scores.size())
      throw Error(ErrorKind::kInput, "token {} has no score, found those of {} tokens", index,
                  of.scores.size());
    *token = of.scores[index].token;
    if (top != nullptr) *top = of.scores[index].top.data();
    if (top_count != nullptr) *top_count = of.scores[index].top.size();
    return VEERY_OK;
  });
}

veery_status veery_answer_message(const veery_answer* answer, char** json, size_t* length) {
  return guarded([&] {
    const veery_answer& of = required(answer, "answer");
    required(json, "json") = nullptr;
    const std::lock_guard lock(of.mutex);
    if (!of.parser) throw Error(ErrorKind::kInput, "the answer is not one of veery_start_chat()");
    give_text(dump_json(to_message(of.parser->answer())), json, length);
    return VEERY_OK;
  });
}
