// POST /completion and /infill of llama.cpp's server.
#include <fmt/format.h>

#include <algorithm>
#include <memory>

#include "base/clock.h"
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

constexpr size_t kMostPrompts = 512;

struct NativeRequest {
  Models::Lease model;
  std::vector<std::vector<int32_t>> prompts;
  bool several = false;  // the answer is a list
  GenerateRequest generate;
  int32_t count = 1;
  bool stream = false, tokens = false, each_timing = false;
  double most_seconds = 0;  // of generation; 0: no limit
  std::vector<std::string> fields;
  Json settings;
};

class PromptReader {
 public:
  PromptReader(const Fields& fields, const Model& model) : fields_(fields), model_(model) {}

  // Reads a text, ids, a mixture of both, an object with prompt_string, or a list of these.
  void read(NativeRequest& request) const {
    const Json* given = fields_.find("prompt");
    if (given == nullptr) fail();
    const bool list = given->is_array() && !given->empty() &&
                      std::ranges::none_of(given->begin(), given->end(),
                                           [](const Json& item) { return item.is_number(); });
    if (!list) {
      request.prompts.push_back(ids_of(*given));
      return;
    }
    if (given->size() > kMostPrompts) fail();
    request.several = given->size() > 1;
    for (const Json& item : *given) request.prompts.push_back(ids_of(item));
  }

 private:
  [[noreturn]] void fail() const {
    fields_.fail("prompt",
                 fmt::format("a text, token ids from 0 to {}, or a list of 1 to {} of them",
                             model_.config().vocab - 1, kMostPrompts));
  }

  std::vector<int32_t> ids_of(const Json& prompt) const {
    if (prompt.is_string()) return encode_prompt(model_.tokenizer(), prompt.string());
    if (prompt.is_object()) {
      const Json* media = prompt.member("multimodal_data");
      if (media != nullptr && !media->empty())
        throw ApiError(400, "prompt.multimodal_data: models here read text only", "prompt");
      const Json* text = prompt.member("prompt_string");
      if (text == nullptr || !text->is_string()) fail();
      return encode_prompt(model_.tokenizer(), text->string());
    }
    if (!prompt.is_array()) fail();
    std::vector<int32_t> ids;
    for (const Json& item : prompt) {
      if (item.is_string()) {
        const std::vector<int32_t> more =
            ids.empty() ? encode_prompt(model_.tokenizer(), item.string())
                        : model_.tokenizer().encode(item.string(), {.add_special = false});
        ids.insert(ids.end(), more.begin(), more.end());
      } else if (item.is_integer_in(0, model_.config().vocab - 1)) {
        ids.push_back(item.get<int32_t>());
      } else {
        fail();
      }
    }
    return ids;
  }

  const Fields& fields_;
  const Model& model_;
};

// Returns generation_settings, the options that the answer repeats.
Json settings_of(const GenerateRequest& request, int32_t context) {
  const SamplerOptions& sampling = request.options.sampling;
  const int64_t most = request.options.max_tokens;
  Json settings = {{"n_ctx", context},
                   {"n_predict", most > INT32_MAX ? -1 : most},
                   {"seed", sampling.seed},
                   {"stop", request.options.stops},
                   {"ignore_eos", request.options.ignore_eos},
                   {"n_probs", std::max(request.logprobs, 0)}};
  for (const SamplingParameter& row : sampling_parameters())
    settings[row.field()] =
        row.real != nullptr ? Json(sampling.*row.real) : Json(sampling.*row.whole);
  return settings;
}

void read_options(const Fields& fields, NativeRequest& request) {
  ServedModel& model = *request.model;
  request.generate.options = read_options(fields, model.model());
  read_answer_form(fields, model, AnswerParser(AnswerFormat()), request.generate);
  request.stream = fields.flag("stream").value_or(false);
  request.tokens = fields.flag("return_tokens").value_or(false);
  const auto scores = static_cast<int32_t>(fields.integer("n_probs", 0, 100).value_or(0));
  request.generate.logprobs = scores > 0 ? scores : -1;
  // The tokens of a streamed piece are taken from its scores.
  if (request.stream && request.tokens && scores == 0) request.generate.logprobs = 0;
  request.count = static_cast<int32_t>(fields.integer("n_cmpl", 1, 128).value_or(1));
  request.several = request.several || request.count > 1;
  request.most_seconds =
      static_cast<double>(fields.integer("t_max_predict_ms", -1, INT32_MAX).value_or(0)) / 1e3;
  request.each_timing = fields.flag("timings_per_token").value_or(false);
  request.fields = fields.texts("response_fields");
  request.settings = settings_of(request.generate, model.scheduler()->context());
}

Json timings_of(const Generation& result) {
  const auto prompt = static_cast<double>(result.prompt_tokens);
  const auto made = static_cast<double>(result.ids.size());
  const auto rate = [](double count, double seconds) { return seconds > 0 ? count / seconds : 0; };
  const auto each = [](double count, double seconds) {
    return count > 0 ? 1e3 * seconds / count : 0;
  };
  return {{"cache_n", result.reused_tokens},
          {"prompt_n", result.prompt_tokens},
          {"prompt_ms", 1e3 * result.prompt_seconds},
          {"prompt_per_token_ms", each(prompt, result.prompt_seconds)},
          {"prompt_per_second", rate(prompt, result.prompt_seconds)},
          {"predicted_n", result.ids.size()},
          {"predicted_ms", 1e3 * result.decode_seconds},
          {"predicted_per_token_ms", each(made, result.decode_seconds)},
          {"predicted_per_second", rate(made, result.decode_seconds)}};
}

Json chance_of(const TokenChance& chance, const Tokenizer& tokenizer) {
  Json json = chance_json(chance, tokenizer);
  json["id"] = chance.id;
  return json;
}

Json scores_of(const std::vector<ScoredToken>& scores, const Tokenizer& tokenizer) {
  Json list = Json::array();
  for (const ScoredToken& score : scores) {
    Json json = chance_of(score.token, tokenizer);
    json["top_logprobs"] = Json::array();
    for (const TokenChance& top : score.top)
      json["top_logprobs"].push_back(chance_of(top, tokenizer));
    list.push_back(std::move(json));
  }
  return list;
}

// Returns only the members that response_fields names; "a/b" becomes "b".
Json selected(const Json& body, const std::vector<std::string>& fields) {
  if (fields.empty()) return body;
  Json out = Json::object();
  for (const std::string& field : fields) {
    const Json* found = &body;
    std::string_view rest = field;
    while (found != nullptr && !rest.empty()) {
      const size_t end = std::min(rest.find('/'), rest.size());
      found = found->is_object() ? found->member(rest.substr(0, end)) : nullptr;
      rest.remove_prefix(std::min(end + 1, rest.size()));
    }
    if (found != nullptr) out[field.substr(field.rfind('/') + 1)] = *found;
  }
  return out;
}

/// The state of one answer.
struct NativeAnswer {
  std::string text;
  std::vector<ScoredToken> scores;
  double first = 0;   // seconds_now() of its first token; 0: none yet
  size_t pieces = 0;  // tokens with complete text
};

class Native {
 public:
  Native(const NativeRequest& request, Reply& reply)
      : request_(request), tokenizer_(request.model->model().tokenizer()), events_(reply) {}

  Json final_body(size_t prompt, int32_t i, Answers& answers, const NativeAnswer& answer) const {
    const Generation& result = answers.result(i);
    const bool word = !result.stop.empty();
    const bool limit = result.finish != FinishReason::kStop;
    Json ids = Json::array();
    if (request_.tokens && !request_.stream)
      for (const int32_t id : result.ids)
        if (id != result.ids.back() || limit || !tokenizer_.ends(id)) ids.push_back(id);
    const auto evaluated = result.prompt_tokens + result.reused_tokens;
    Json body = {{"index", static_cast<int64_t>(prompt) * request_.count + i},
                 {"content", request_.stream ? std::string() : answer.text},
                 {"tokens", ids},
                 {"id_slot", -1},
                 {"stop", true},
                 {"model", request_.model->id()},
                 {"tokens_predicted", result.ids.size()},
                 {"tokens_evaluated", evaluated},
                 {"generation_settings", request_.settings},
                 {"prompt", valid_utf8(tokenizer_.decode(request_.prompts[prompt], true))},
                 {"has_new_line", result.text.find('\n') != std::string::npos},
                 {"truncated", false},
                 {"stop_type", word    ? "word"
                               : limit ? "limit"
                                       : "eos"},
                 {"stopping_word", result.stop},
                 {"tokens_cached", evaluated + result.ids.size()},
                 {"timings", timings_of(result)}};
    if (request_.settings["n_probs"] != 0 && !request_.stream)
      body["completion_probabilities"] = scores_of(answer.scores, tokenizer_);
    return body;
  }

  // Returns false if the client is gone.
  bool show(size_t prompt, const Answers::Event& event, const NativeAnswer& one) {
    Json ids = Json::array();
    for (const ScoredToken& score : event.piece.scores) ids.push_back(score.token.id);
    Json body = {{"index", static_cast<int64_t>(prompt) * request_.count + event.index},
                 {"content", event.piece.text},
                 {"tokens", ids},
                 {"stop", false},
                 {"id_slot", -1},
                 {"tokens_predicted", one.pieces},
                 {"tokens_evaluated", request_.prompts[prompt].size()}};
    if (request_.each_timing)
      body["timings"] = {{"prompt_n", request_.prompts[prompt].size()},
                         {"predicted_n", one.pieces},
                         {"predicted_ms", 1e3 * (seconds_now() - one.first)}};
    if (request_.settings["n_probs"] != 0)
      body["completion_probabilities"] = scores_of(event.piece.scores, tokenizer_);
    return events_.data(body);
  }

  // Cancels an answer after its time limit, once it has a complete line.
  void limit_time(Answers& answers, const NativeAnswer& answer) const {
    if (request_.most_seconds <= 0) return;
    const bool over = seconds_now() - answer.first > request_.most_seconds;
    if (over && answer.text.find('\n') != std::string::npos) answers.cancel();
  }

  std::optional<Json> answer(size_t prompt, Answers& answers) {
    std::vector<NativeAnswer> all(static_cast<size_t>(request_.count));
    Json bodies = Json::array();
    while (const auto event = answers.next()) {
      if (event->index < 0) {
        if (request_.stream && !events_.ping()) return std::nullopt;
        continue;
      }
      NativeAnswer& one = all[static_cast<size_t>(event->index)];
      one.text += event->piece.text;
      one.pieces = std::max(one.pieces + 1, one.scores.size() + event->piece.scores.size());
      if (one.first == 0) one.first = seconds_now();
      one.scores.insert(one.scores.end(), event->piece.scores.begin(), event->piece.scores.end());
      limit_time(answers, one);
      if (request_.stream && !event->piece.text.empty() && !show(prompt, *event, one))
        return std::nullopt;
      if (!event->over) continue;
      Json body = final_body(prompt, event->index, answers, one);
      if (request_.stream) {
        if (!events_.data(body)) return std::nullopt;
      } else {
        bodies.push_back(selected(body, request_.fields));
      }
    }
    return bodies;
  }

  void end() { events_.end(); }

 private:
  const NativeRequest& request_;
  const Tokenizer& tokenizer_;
  EventStream events_;
};

void answer(NativeRequest& request, Reply& reply) {
  Scheduler& scheduler = *request.model->scheduler();
  for (const std::vector<int32_t>& ids : request.prompts) {
    if (ids.empty())
      throw ApiError(400, "the prompt is empty, expected at least one token", "prompt");
    if (request.generate.options.max_tokens > 0) check_context(ids.size(), scheduler, "prompt");
  }
  std::vector<std::unique_ptr<Answers>> batch;
  for (const std::vector<int32_t>& ids : request.prompts) {
    request.generate.prompt = ids;
    batch.push_back(
        std::make_unique<Answers>(*request.model, request.generate, request.count, reply));
  }
  Native native(request, reply);
  Json all = Json::array();
  for (size_t p = 0; p < batch.size(); ++p) {
    const std::optional<Json> bodies = native.answer(p, *batch[p]);
    if (!bodies) return;
    for (const Json& body : *bodies) all.push_back(body);
  }
  if (request.stream) return native.end();
  reply.send(200, kJson, dump_json(request.several ? all : all.front()));
}

std::vector<InfillFile> read_files(const Fields& fields) {
  std::vector<InfillFile> files;
  const Json* list = fields.array("input_extra");
  if (list == nullptr) return files;
  for (size_t i = 0; i < list->size(); ++i) {
    const Fields file((*list)[i], fmt::format("input_extra[{}].", i));
    files.push_back({file.text("filename").value_or("file"), file.require_text("text")});
  }
  return files;
}

}  // namespace

void llama_completion(Context& context, const HttpRequest& http, Reply& reply) {
  const Json body = read_body(http, reply, llama_completion_rules());
  const Fields fields(body);
  NativeRequest request{.model = context.models.find(fields.text("model").value_or(""))};
  require_scheduler(*request.model);
  PromptReader(fields, request.model->model()).read(request);
  read_options(fields, request);
  answer(request, reply);
}

void llama_infill(Context& context, const HttpRequest& http, Reply& reply) {
  const Json body = read_body(http, reply, llama_infill_rules());
  const Fields fields(body);
  NativeRequest request{.model = context.models.find(fields.text("model").value_or(""))};
  require_scheduler(*request.model);
  if (!fields.has("input_prefix") && !fields.has("input_suffix"))
    fields.fail("input_prefix", "a text");
  try {
    request.prompts.push_back(
        infill_prompt(request.model->model(), fields.text("input_prefix").value_or(""),
                      fields.text("input_suffix").value_or(""), read_files(fields),
                      fields.text("prompt").value_or("")));
  } catch (const Error& error) {
    if (error.kind() == ErrorKind::kBug) throw;
    throw ApiError(400, fmt::format("input_suffix: {}", error.what()), "input_suffix");
  }
  read_options(fields, request);
  answer(request, reply);
}

}  // namespace veery::serve
