// POST /v1/completions
#include <fmt/format.h>

#include <algorithm>
#include <ctime>

#include "base/utf8.h"
#include "chat/chat.h"
#include "chat/infill.h"
#include "serve/api/answer_form.h"
#include "serve/api/answers.h"
#include "serve/api/api_error.h"
#include "serve/api/context.h"
#include "serve/api/openai.h"
#include "serve/api/prompt.h"
#include "serve/api/token_fields.h"
#include "serve/rules/groups.h"

namespace veery::serve {
namespace {

constexpr size_t kMostPrompts = 2048;

struct Prompt {
  std::vector<int32_t> ids;
};

std::vector<int32_t> read_ids(const Json& list, const Model& model) {
  std::vector<int32_t> ids;
  for (const Json& item : list) {
    if (!item.is_integer_in(0, model.config().vocab - 1))
      throw ApiError(400,
                     fmt::format("prompt has the token id {}, expected 0 to {}",
                                 dump_json(item).substr(0, 40), model.config().vocab - 1),
                     "prompt");
    ids.push_back(item.get<int32_t>());
  }
  return ids;
}

// Returns the ids of a text; with a suffix, those of a fill-in-the-middle prompt.
std::vector<int32_t> text_ids(const Fields& fields, const std::string& text, const Model& model) {
  const std::string suffix = fields.text("suffix").value_or("");
  if (suffix.empty()) return encode_prompt(model.tokenizer(), text);
  try {
    return infill_prompt(model, text, suffix);
  } catch (const Error& error) {
    if (error.kind() == ErrorKind::kBug) throw;
    throw ApiError(400, fmt::format("suffix: {}", error.what()), "suffix");
  }
}

// Reads a text, ids, or a list of either.
std::vector<Prompt> read_prompts(const Fields& fields, ServedModel& served) {
  const Json* found = fields.find("prompt");
  if (found == nullptr) fields.fail("prompt", "a text, token ids or a list of them");
  const Model& model = served.model();
  if (found->is_string()) check_texts(*found, served, "prompt");
  std::vector<Prompt> prompts;
  const auto add_text = [&](const Json& text) {
    prompts.push_back({text_ids(fields, text.string(), model)});
  };
  if (found->is_string()) {
    add_text(*found);
  } else if (found->is_array() && !found->empty() && found->front().is_number()) {
    prompts.push_back({read_ids(*found, model)});
  } else if (found->is_array() && !found->empty() && found->size() <= kMostPrompts) {
    for (const Json& item : *found)
      if (item.is_string())
        add_text(item);
      else if (item.is_array())
        prompts.push_back({read_ids(item, model)});
      else
        fields.fail("prompt", "a text, token ids or a list of them");
  } else {
    fields.fail("prompt",
                fmt::format("a text, token ids or a list of 1 to {} of them", kMostPrompts));
  }
  const bool texts = found->is_string() || (found->is_array() && found->front().is_string());
  if (!texts && !fields.text("suffix").value_or("").empty())
    throw ApiError(400, "suffix: the prompt is token ids, expected a text", "suffix");
  for (const Prompt& prompt : prompts)
    if (prompt.ids.empty())
      throw ApiError(400, "the prompt is empty, expected at least one token", "prompt");
  return prompts;
}

struct CompletionRequest {
  Models::Lease model;
  std::vector<Prompt> prompts;
  GenerateRequest generate;
  int32_t count = 1;
  bool stream = false, usage = false, echo = false;
  bool tokens_as_ids = false;  // logprobs write tokens as "token_id:7"
  std::string id;
  int64_t created = 0;
};

CompletionRequest read_completion(Context& context, const Json& body) {
  const Fields fields(body);
  CompletionRequest request;
  request.model = context.models.find(fields.text("model").value_or(""));
  require_scheduler(*request.model);
  const Model& model = request.model->model();
  request.prompts = read_prompts(fields, *request.model);
  for (Prompt& prompt : request.prompts)
    truncate_prompt(fields, request.model->scheduler()->context(), prompt.ids);
  request.generate.options = read_options(fields, model);
  // The default of the protocol. A text continuation may have no other end.
  GenerateOptions& options = request.generate.options;
  if (options.max_tokens > INT32_MAX)
    options.max_tokens = std::max<int64_t>(16, options.min_tokens);
  read_answer_form(fields, *request.model, AnswerParser(AnswerFormat()), request.generate);
  request.count = static_cast<int32_t>(fields.integer("n", 1, 128).value_or(1));
  if (const auto best = fields.integer("best_of", 1, 128); best && *best > request.count)
    throw ApiError(400,
                   fmt::format("best_of is {}, expected no more than n, {}", *best, request.count),
                   "best_of");
  if (const auto scores = fields.integer("logprobs", 0, 20))
    request.generate.logprobs = static_cast<int32_t>(*scores);
  request.echo = fields.flag("echo").value_or(false);
  request.generate.prompt_scores = request.echo && request.generate.logprobs >= 0;
  request.stream = fields.flag("stream").value_or(false);
  if (request.stream && request.generate.prompt_scores)
    throw ApiError(400, "echo: logprobs of the prompt are not streamed, expected stream false",
                   "echo");
  if (request.echo && !fields.text("suffix").value_or("").empty())
    throw ApiError(400, "echo and suffix exclude each other", "echo");
  request.tokens_as_ids = fields.flag("return_tokens_as_token_ids").value_or(false);
  if (const Json* given = fields.object("stream_options"))
    request.usage = Fields(*given, "stream_options.").flag("include_usage").value_or(false);
  request.id = random_id("cmpl-");
  request.created = std::time(nullptr);
  return request;
}

int64_t characters(std::string_view text) {
  return std::ranges::count_if(text, [](char c) { return (c & 0xC0) != 0x80; });
}

/// The lists of the legacy format of logprobs. Offsets count characters. A token that is not whole
/// characters is written "bytes:\\xe2", as by OpenAI.
class Scores {
 public:
  Scores(const Tokenizer& tokenizer, bool as_ids) : tokenizer_(tokenizer), as_ids_(as_ids) {}

  void add(int32_t id, const ScoredToken& score) {
    tokens_.push_back(name_of(id));
    offsets_.push_back(offset_);
    offset_ += characters(tokenizer_.piece(id, true));
    const bool known = score.token.id >= 0;
    logprobs_.push_back(known ? chance_json(score.token, tokenizer_)["logprob"] : Json());
    Json top = known ? Json::object() : Json();
    // If several tokens have the same text, the most probable one gets it as its name.
    for (const TokenChance& chance : score.top) {
      std::string name = name_of(chance.id);
      if (top.contains(name)) name = id_name(chance.id);
      top[name] = chance_json(chance, tokenizer_)["logprob"];
    }
    top_.push_back(std::move(top));
  }
  Json take() {
    Json json = {{"tokens", std::exchange(tokens_, Json::array())},
                 {"token_logprobs", std::exchange(logprobs_, Json::array())},
                 {"top_logprobs", std::exchange(top_, Json::array())},
                 {"text_offset", std::exchange(offsets_, Json::array())}};
    return json;
  }

 private:
  static std::string id_name(int32_t id) { return fmt::format("token_id:{}", id); }
  std::string name_of(int32_t id) const {
    if (as_ids_) return id_name(id);
    const std::string piece = tokenizer_.piece(id, true);
    if (valid_utf8(piece) == piece) return piece;
    std::string name = "bytes:";
    for (const char byte : piece)
      name += fmt::format("\\x{:02x}", static_cast<unsigned char>(byte));
    return name;
  }

  const Tokenizer& tokenizer_;
  bool as_ids_;
  int64_t offset_ = 0;
  Json tokens_ = Json::array(), logprobs_ = Json::array(), top_ = Json::array(),
       offsets_ = Json::array();
};

std::string echoed(const CompletionRequest& request, const Prompt& prompt) {
  return request.echo ? request.model->model().tokenizer().decode(prompt.ids, true) : std::string();
}

struct Usage {
  int64_t prompt = 0, made = 0, cached = 0;
  void add(const Answers& answers) {
    const Generation& first = answers.result(0);
    prompt += static_cast<int64_t>(first.prompt_tokens + first.reused_tokens);
    cached += static_cast<int64_t>(first.reused_tokens);
    for (int32_t i = 0; i < answers.count(); ++i) made += std::ssize(answers.result(i).ids);
  }
  Json json() const {
    return {{"prompt_tokens", prompt},
            {"completion_tokens", made},
            {"total_tokens", prompt + made},
            {"prompt_tokens_details", {{"cached_tokens", cached}}}};
  }
};

Json frame_of(const CompletionRequest& request) {
  return {{"id", request.id},
          {"object", "text_completion"},
          {"created", request.created},
          {"model", request.model->id()}};
}

using Batch = std::vector<std::unique_ptr<Answers>>;

void answer_whole(const CompletionRequest& request, Batch& batch, Reply& reply) {
  const Tokenizer& tokenizer = request.model->model().tokenizer();
  Json body = frame_of(request);
  body["choices"] = Json::array();
  Usage usage;
  for (size_t p = 0; p < batch.size(); ++p) {
    Answers& answers = *batch[p];
    const Prompt& prompt = request.prompts[p];
    std::vector<std::string> texts(static_cast<size_t>(request.count), echoed(request, prompt));
    std::vector<std::vector<ScoredToken>> scores(texts.size());
    while (const auto event = answers.next()) {
      if (event->index < 0) continue;
      const auto i = static_cast<size_t>(event->index);
      texts[i] += event->piece.text;
      scores[i].insert(scores[i].end(), event->piece.scores.begin(), event->piece.scores.end());
    }
    usage.add(answers);
    for (int32_t i = 0; i < answers.count(); ++i) {
      Scores list(tokenizer, request.tokens_as_ids);
      const std::vector<ScoredToken>& given = answers.prompt_scores(i);
      for (size_t k = 0; k < given.size(); ++k) list.add(prompt.ids[k], given[k]);
      for (const ScoredToken& score : scores[static_cast<size_t>(i)])
        list.add(score.token.id, score);
      const bool stopped = answers.result(i).finish == FinishReason::kStop;
      body["choices"].push_back(
          {{"index", static_cast<int64_t>(p) * request.count + i},
           {"text", texts[static_cast<size_t>(i)]},
           {"logprobs", request.generate.logprobs >= 0 ? list.take() : Json()},
           {"finish_reason", stopped ? "stop" : "length"},
           {"stop_reason", stop_reason(answers.result(i))}});
    }
  }
  body["usage"] = usage.json();
  reply.send(200, kJson, dump_json(body));
}

void answer_stream(const CompletionRequest& request, Batch& batch, Reply& reply) {
  const Tokenizer& tokenizer = request.model->model().tokenizer();
  EventStream events(reply);
  Json frame = frame_of(request);
  if (request.usage) frame["usage"] = nullptr;
  Usage usage;
  const auto chunk = [&](int64_t index, const std::string& text, Json scores,
                         const Generation* result) {
    Json choice = {{"index", index},
                   {"text", text},
                   {"logprobs", std::move(scores)},
                   {"finish_reason", Json()}};
    if (result != nullptr) {
      choice["finish_reason"] = result->finish == FinishReason::kStop ? "stop" : "length";
      choice["stop_reason"] = stop_reason(*result);
    }
    Json body = frame;
    body["choices"] = Json::array({std::move(choice)});
    return events.data(body);
  };
  for (size_t p = 0; p < batch.size(); ++p) {
    Answers& answers = *batch[p];
    std::vector<Scores> lists(static_cast<size_t>(request.count),
                              Scores(tokenizer, request.tokens_as_ids));
    const std::string prompt = echoed(request, request.prompts[p]);
    const auto index_of = [&](int32_t i) { return static_cast<int64_t>(p) * request.count + i; };
    if (!prompt.empty())
      for (int32_t i = 0; i < request.count; ++i)
        if (!chunk(index_of(i), prompt, {}, nullptr)) return;
    while (const auto event = answers.next()) {
      if (event->index < 0) {
        if (!events.ping()) return;
        continue;
      }
      Json scores;
      if (!event->piece.scores.empty()) {
        Scores& list = lists[static_cast<size_t>(event->index)];
        for (const ScoredToken& score : event->piece.scores) list.add(score.token.id, score);
        scores = list.take();
      }
      const Generation* result = event->over ? &answers.result(event->index) : nullptr;
      if (!chunk(index_of(event->index), event->piece.text, std::move(scores), result)) return;
    }
    usage.add(answers);
  }
  if (request.usage) {
    Json body = frame;
    body["choices"] = Json::array();
    body["usage"] = usage.json();
    events.data(body);
  }
  events.done();
}

}  // namespace

void completions(Context& context, const HttpRequest& http, Reply& reply) {
  CompletionRequest request = read_completion(context, read_body(http, reply, completion_rules()));
  Scheduler& scheduler = *request.model->scheduler();
  for (const Prompt& prompt : request.prompts)
    if (request.generate.options.max_tokens > 0)
      check_context(prompt.ids.size(), scheduler, "prompt");
  Batch batch;
  for (const Prompt& prompt : request.prompts) {
    request.generate.prompt = prompt.ids;
    batch.push_back(
        std::make_unique<Answers>(*request.model, request.generate, request.count, reply));
  }
  request.stream ? answer_stream(request, batch, reply) : answer_whole(request, batch, reply);
}

}  // namespace veery::serve
