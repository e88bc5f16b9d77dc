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
#include "serve/openai/chunk_writer.h"
#include "serve/rules/groups.h"

namespace veery::serve {
namespace {

constexpr size_t kMostPrompts = 2048;

using Prompts = std::vector<std::vector<int32_t>>;

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
Prompts read_prompts(const Fields& fields, ServedModel& served) {
  const Json* found = fields.find("prompt");
  if (found == nullptr) fields.fail("prompt", "a text, token ids or a list of them");
  const Model& model = served.model();
  if (found->is_string()) check_texts(*found, served, "prompt");
  Prompts prompts;
  const auto add_text = [&](const Json& text) {
    prompts.push_back(text_ids(fields, text.string(), model));
  };
  if (found->is_string()) {
    add_text(*found);
  } else if (found->is_array() && !found->empty() && found->front().is_number()) {
    prompts.push_back(read_ids(*found, model));
  } else if (found->is_array() && !found->empty() && found->size() <= kMostPrompts) {
    for (const Json& item : *found)
      if (item.is_string())
        add_text(item);
      else if (item.is_array())
        prompts.push_back(read_ids(item, model));
      else
        fields.fail("prompt", "a text, token ids or a list of them");
  } else {
    fields.fail("prompt",
                fmt::format("a text, token ids or a list of 1 to {} of them", kMostPrompts));
  }
  const bool texts = found->is_string() || (found->is_array() && found->front().is_string());
  if (!texts && !fields.text("suffix").value_or("").empty())
    throw ApiError(400, "suffix: the prompt is token ids, expected a text", "suffix");
  for (const std::vector<int32_t>& ids : prompts)
    if (ids.empty())
      throw ApiError(400, "the prompt is empty, expected at least one token", "prompt");
  return prompts;
}

struct CompletionRequest {
  Models::Lease model;
  Prompts prompts;
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
  for (std::vector<int32_t>& ids : request.prompts)
    truncate_prompt(fields, request.model->scheduler()->context(), ids);
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
  request.usage = read_include_usage(fields);
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
  void add(const std::vector<ScoredToken>& scores) {
    for (const ScoredToken& score : scores) add(score.token.id, score);
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

Json frame_of(const CompletionRequest& request) {
  return {{"id", request.id},
          {"object", "text_completion"},
          {"created", request.created},
          {"model", request.model->id()}};
}

/// Writes text completions and their chunks.
class CompletionWriter : public ChunkWriter {
 public:
  explicit CompletionWriter(const CompletionRequest& request)
      : ChunkWriter(frame_of(request), request.usage),
        request_(request),
        tokenizer_(request.model->model().tokenizer()),
        scores_(request.prompts.size() * static_cast<size_t>(request.count),
                Scores(tokenizer_, request.tokens_as_ids)) {}

  Json whole(AnswerList answers, const AnswerUsage& usage) override {
    Json body = frame_of(request_);
    body["choices"] = Json::array();
    for (const Answer& answer : answers) {
      Scores& scores = scores_of(answer);
      const std::vector<ScoredToken>& given = answer.prompt_scores();
      for (size_t k = 0; k < given.size(); ++k)
        scores.add(request_.prompts[answer.prompt][k], given[k]);
      std::string text = echoed(answer);
      for (const AnswerPiece& piece : answer.pieces) {
        text += piece.text;
        scores.add(piece.scores);
      }
      body["choices"].push_back(
          {{"index", answer.index},
           {"text", std::move(text)},
           {"logprobs", request_.generate.logprobs >= 0 ? scores.take() : Json()},
           {"finish_reason", finish_reason(answer)},
           {"stop_reason", stop_reason(answer.result())}});
    }
    body["usage"] = usage_json(usage);
    return body;
  }

  void begin(AnswerList answers, EventStream& stream) override {
    for (const Answer& answer : answers)
      if (const std::string text = echoed(answer); !text.empty())
        send(choice_of(answer, text), stream);
  }
  void add(const Answer& answer, const AnswerPiece& piece, EventStream& stream) override {
    Json choice = choice_of(answer, piece.text);
    if (!piece.scores.empty()) {
      scores_of(answer).add(piece.scores);
      choice["logprobs"] = scores_of(answer).take();
    }
    send(std::move(choice), stream);
  }
  void end(const Answer& answer, EventStream& stream) override {
    Json choice = choice_of(answer, "");
    choice["finish_reason"] = finish_reason(answer);
    choice["stop_reason"] = stop_reason(answer.result());
    send(std::move(choice), stream);
  }

 private:
  std::string echoed(const Answer& answer) const {
    return request_.echo ? tokenizer_.decode(request_.prompts[answer.prompt], true) : "";
  }
  Scores& scores_of(const Answer& answer) { return scores_[static_cast<size_t>(answer.index)]; }

  static Json choice_of(const Answer& answer, const std::string& text) {
    return {
        {"index", answer.index}, {"text", text}, {"logprobs", nullptr}, {"finish_reason", nullptr}};
  }

  const CompletionRequest& request_;
  const Tokenizer& tokenizer_;
  std::vector<Scores> scores_;
};

}  // namespace

void completions(Context& context, const HttpRequest& http, Reply& reply) {
  CompletionRequest request = read_completion(context, read_body(http, reply, completion_rules()));
  Scheduler& scheduler = *request.model->scheduler();
  for (const std::vector<int32_t>& ids : request.prompts)
    if (request.generate.options.max_tokens > 0) check_context(ids.size(), scheduler, "prompt");
  CompletionWriter writer(request);
  send_answers({.model = *request.model,
                .generate = request.generate,
                .prompts = request.prompts,
                .count = request.count,
                .stream = request.stream},
               writer, reply);
}

}  // namespace veery::serve
