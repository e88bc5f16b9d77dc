#include "capi/answers.h"

#include <cmath>
#include <utility>

#include "capi/generate_options.h"
#include "capi/results.h"
#include "capi/structures.h"
#include "capi/texts.h"
#include "chat/chat.h"

namespace veery::capi {
namespace {

constexpr double kMostSeconds = 1e8;  // representable by every clock

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

std::unique_ptr<veery_answer> start(const std::shared_ptr<LoadedModel>& model,
                                    std::vector<int32_t> ids, const veery_generate_options* options,
                                    const RenderedConversation* chat, bool whole) {
  model->require(Makes::kTexts);
  GenerateRequest request =
      make_request(*model, std::move(ids), generate_options_or(*model, options));
  request.whole = whole;
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
  if (on_end) on_end(whole ? ticket->result().ids : std::vector<int32_t>());
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
    const LoadedModel* loaded = model == nullptr ? nullptr : required(model, "model").loaded.get();
    give_structure(options, size, default_generate_options(loaded), "veery_generate_options");
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
    const veery_generate_options given = generate_options_or(*loaded, options);
    const RenderedConversation chat = render_chat(*loaded, messages, given.variables);
    *answer = start(loaded, chat.ids, &given, &chat).release();
    return VEERY_OK;
  });
}

veery_status veery_answer_next(veery_answer* answer, double seconds, veery_piece* piece) {
  return guarded([&] {
    required(piece, "piece") = {"", 0};
    if (std::isnan(seconds)) throw Error(ErrorKind::kInput, "seconds is NaN, expected a number");
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
    veery_usage result{};
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
    give_structure(usage, required(usage, "usage").size, result, "veery_usage");
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
