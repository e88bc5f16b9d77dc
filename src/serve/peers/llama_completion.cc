// POST /completion and /infill of llama.cpp's server.
#include <fmt/format.h>

#include <algorithm>

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

Json scores_of(std::span<const AnswerPiece> pieces, const Tokenizer& tokenizer) {
  Json list = Json::array();
  for (const AnswerPiece& piece : pieces)
    for (const ScoredToken& score : piece.scores) {
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

/// Writes completions in the format of llama.cpp's server.
class NativeWriter : public ReplyWriter {
 public:
  explicit NativeWriter(const NativeRequest& request)
      : request_(request),
        tokenizer_(request.model->model().tokenizer()),
        counts_(request.prompts.size() * static_cast<size_t>(request.count)) {}

  Json whole(AnswerList answers, const AnswerUsage&) override {
    Json bodies = Json::array();
    for (const Answer& answer : answers)
      bodies.push_back(selected(final_body(answer), request_.fields));
    return request_.several ? bodies : bodies.front();
  }

  void add(const Answer& answer, const AnswerPiece& piece, EventStream& stream) override {
    Count& count = counts_[static_cast<size_t>(answer.index)];
    if (count.first == 0) count.first = seconds_now();
    count.scores += piece.scores.size();
    count.tokens = std::max(count.tokens + 1, count.scores);
    // Tokens that complete no character have scores, but no text.
    if (!piece.text.empty() || !piece.scores.empty()) stream.data(piece_body(answer, piece, count));
  }
  void end(const Answer& answer, EventStream& stream) override { stream.data(final_body(answer)); }
  void finish(AnswerList, const AnswerUsage&, EventStream&) override {}

 private:
  /// Counts of one answer.
  struct Count {
    double first = 0;               // seconds_now() of the first; 0: none yet
    size_t tokens = 0, scores = 0;  // tokens: with complete text
  };

  Json final_body(const Answer& answer) const {
    const Generation& result = answer.result();
    const bool word = !result.stop.empty();
    const bool limit = result.finish != FinishReason::kStop;
    const bool shows_scores = request_.generate.logprobs > 0 && !request_.stream;
    const auto evaluated = result.prompt_tokens + result.reused_tokens;
    std::string text;
    for (const AnswerPiece& piece : answer.pieces) text += piece.text;
    Json body = {{"index", answer.index},
                 {"content", std::move(text)},  // empty at the end of a stream
                 {"tokens", ids_of(result)},
                 {"id_slot", -1},
                 {"stop", true},
                 {"model", request_.model->id()},
                 {"tokens_predicted", result.ids.size()},
                 {"tokens_evaluated", evaluated},
                 {"generation_settings", request_.settings},
                 {"prompt", valid_utf8(tokenizer_.decode(request_.prompts[answer.prompt], true))},
                 {"has_new_line", result.text.find('\n') != std::string::npos},
                 {"truncated", false},
                 {"stop_type", word    ? "word"
                               : limit ? "limit"
                                       : "eos"},
                 {"stopping_word", result.stop},
                 {"tokens_cached", evaluated + result.ids.size()},
                 {"timings", timings_of(result)}};
    if (shows_scores) body["completion_probabilities"] = scores_of(answer.pieces, tokenizer_);
    return body;
  }

  // Returns the tokens of a whole reply, if requested.
  Json ids_of(const Generation& result) const {
    Json ids = Json::array();
    if (!request_.tokens || request_.stream) return ids;
    const bool limit = result.finish != FinishReason::kStop;
    for (const int32_t id : result.ids)
      if (id != result.ids.back() || limit || !tokenizer_.ends(id)) ids.push_back(id);
    return ids;
  }

  Json piece_body(const Answer& answer, const AnswerPiece& piece, const Count& count) const {
    Json ids = Json::array();
    for (const ScoredToken& score : piece.scores) ids.push_back(score.token.id);
    const size_t prompt = request_.prompts[answer.prompt].size();
    Json body = {{"index", answer.index},
                 {"content", piece.text},
                 {"tokens", std::move(ids)},
                 {"stop", false},
                 {"id_slot", -1},
                 {"tokens_predicted", count.tokens},
                 {"tokens_evaluated", prompt}};
    if (request_.each_timing)
      body["timings"] = {{"prompt_n", prompt},
                         {"predicted_n", count.tokens},
                         {"predicted_ms", 1e3 * (seconds_now() - count.first)}};
    if (request_.generate.logprobs > 0)
      body["completion_probabilities"] = scores_of({&piece, 1}, tokenizer_);
    return body;
  }

  const NativeRequest& request_;
  const Tokenizer& tokenizer_;
  std::vector<Count> counts_;  // by Answer::index
};

void answer(const NativeRequest& request, Reply& reply) {
  const Scheduler& scheduler = *request.model->scheduler();
  for (const std::vector<int32_t>& ids : request.prompts) {
    if (ids.empty())
      throw ApiError(400, "the prompt is empty, expected at least one token", "prompt");
    if (request.generate.options.max_tokens > 0) check_context(ids.size(), scheduler, "prompt");
  }
  NativeWriter writer(request);
  send_answers({.model = *request.model,
                .generate = request.generate,
                .prompts = request.prompts,
                .count = request.count,
                .stream = request.stream,
                .most_seconds = request.most_seconds},
               writer, reply);
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
