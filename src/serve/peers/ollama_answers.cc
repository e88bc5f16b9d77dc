// Ollama's endpoints for answers: /api/chat, /api/generate, /api/embed, /api/embeddings.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <ctime>
#include <utility>

#include "base/clock.h"
#include "chat/chat.h"
#include "chat/infill.h"
#include "chat/reasoning.h"
#include "serve/api/answers.h"
#include "serve/api/api_error.h"
#include "serve/api/encoding.h"
#include "serve/api/openai.h"
#include "serve/api/prompt.h"
#include "serve/peers/ollama.h"
#include "serve/rules/groups.h"

namespace veery::serve {
namespace {

// The field "options".
struct Options {
  explicit Options(const Fields& fields)
      : json(fields.object("options") != nullptr ? *fields.object("options") : Json::object()),
        members(json, "options.") {}

  Json json;
  Fields members;
};

void read_scores(const Fields& fields, GenerateRequest& request) {
  const auto top = static_cast<int32_t>(fields.integer("top_logprobs", 0, 20).value_or(0));
  if (fields.flag("logprobs").value_or(false)) request.logprobs = top;
}

// Limits the tokens of prompt and answer together to options.num_ctx.
void limit_context(const Options& options, GenerateRequest& request) {
  const auto most = options.members.integer("num_ctx", 1, INT32_MAX);
  if (!most) return;
  const int64_t room = *most - std::ssize(request.prompt);
  if (room <= 0)
    throw ApiError(400,
                   fmt::format("the prompt has {} tokens, options.num_ctx is {}",
                               request.prompt.size(), *most),
                   "options.num_ctx", "context_length_exceeded");
  request.options.max_tokens = std::min(request.options.max_tokens, room);
}

// Reads "format": "json" or a schema.
void read_ollama_format(const Fields& fields, ServedModel& model, const AnswerParser& parser,
                        GenerateRequest& request) {
  const Json* format = fields.find("format");
  if (format == nullptr || *format == "") return;
  if (*format != "json" && !format->is_object()) fields.fail("format", "\"json\" or a schema");
  constrain_to_schema(format->is_object() ? *format : Json{{"type", "object"}}, model, parser,
                      request);
}

// Reads "think": a flag, or "low", "medium" or "high".
void read_think(const Fields& fields, const ServedModel& model, Json& variables) {
  const Json* think = fields.find("think");
  if (think == nullptr) return;
  const bool level = think->is_string() && is_reasoning_level(think->string());
  if (!think->is_boolean() && !level)
    fields.fail("think", "true, false, \"low\", \"medium\" or \"high\"");
  const bool wanted = level || think->boolean();
  if (wanted && !model.model().answer_format().reasons())
    throw ApiError(400, fmt::format("\"{}\" does not support thinking", model.id()), "think");
  set_thinking(variables, wanted);
  if (level) set_reasoning_effort(variables, think->string());
}

// Adds ids to calls and their results. Messages of Ollama have none; results follow their calls in
// order.
Json with_ids(const Json& messages) {
  Json out = messages;
  int64_t calls = 0, results = 0;
  const auto id = [](int64_t count) { return fmt::format("call{:05}", count); };
  for (Json& message : out) {
    if (!message.is_object()) continue;
    if (const Json* list = message.member("tool_calls"); list != nullptr && list->is_array()) {
      results = calls;
      for (Json& call : message["tool_calls"])
        if (call.is_object()) {
          if (!call.contains("id")) call["id"] = id(calls);
          ++calls;
        }
    }
    if (message.value("role", Json("")) != Json("tool")) continue;
    if (!message.contains("tool_call_id")) message["tool_call_id"] = id(results++);
    if (const Json* name = message.member("tool_name");
        name != nullptr && !message.contains("name"))
      message["name"] = *name;
  }
  return out;
}

/// One request of /api/chat or /api/generate.
class OllamaRequest {
 public:
  OllamaRequest(Context& context, const Json& body) : fields(body), options(fields) {
    name = ollama_model(context, fields);
    keep_alive = ollama_keep_alive(fields);
    stream = fields.flag("stream").value_or(true);
  }

  void load(Context& context) {
    lease = context.models.find(name, keep_alive);
    load_seconds = seconds_now() - started;
    require_scheduler(*lease);
  }
  ServedModel& model() const { return *lease; }

  // Handles an empty prompt, by which clients load or unload a model.
  bool answers_load(Context& context, bool empty, Json body, Reply& reply) {
    if (!empty) return false;
    const bool unload = keep_alive && *keep_alive == 0;
    if (!unload || context.models.view(name).model) load(context);
    lease.reset();
    body["model"] = name;
    body["created_at"] = ollama_time(std::time(nullptr));
    body["done"] = true;
    body["done_reason"] = unload ? "unload" : "load";
    reply.send(200, kJson, dump_json(body));
    return true;
  }

  Fields fields;
  Options options;
  std::string name;
  std::optional<KeepAlive> keep_alive;
  Models::Lease lease;
  bool stream = true;
  double started = seconds_now(), load_seconds = 0;
};

/// Writes an answer as one object, or as lines of which the last has the statistics.
class OllamaWriter : public ReplyWriter {
 public:
  /// Returns the members of a body that depend on the endpoint.
  using Body = Json (*)(const ParsedAnswer& part);
  /// `context`: the ids of the prompt, which are returned together with those of the answer; may be
  /// nullptr.
  OllamaWriter(const OllamaRequest& request, Body body, const std::vector<int32_t>* context)
      : request_(request), body_(body), context_(context) {}

  Json whole(AnswerList answers, const AnswerUsage& usage) override {
    const Answer& answer = answers.front();
    scores_ = scores_json(answer.pieces, tokenizer());
    return last_body(answer, answer.parsed(), usage);
  }

  void add(const Answer& answer, const AnswerPiece& piece, EventStream& stream) override {
    for (Json& score : scores_json({&piece, 1}, tokenizer())) scores_.push_back(std::move(score));
    const ParsedAnswer part = part_of(piece, answer);
    if (part.content.empty() && part.reasoning.empty() && part.calls.empty()) return;
    Json body = body_of(part);
    body["done"] = false;
    add_scores(body);
    stream.line(body);
  }
  void finish(AnswerList answers, const AnswerUsage& usage, EventStream& stream) override {
    stream.line(last_body(answers.front(), {}, usage));
  }
  void ping(EventStream&) override {}  // lines of JSON have no comments

 private:
  const Tokenizer& tokenizer() const { return request_.model().model().tokenizer(); }

  static ParsedAnswer part_of(const AnswerPiece& piece, const Answer& answer) {
    ParsedAnswer part;
    for (const AnswerDelta& delta : piece.deltas) {
      if (delta.kind == AnswerDelta::Kind::kContent) part.content += delta.text;
      if (delta.kind == AnswerDelta::Kind::kReasoning) part.reasoning += delta.text;
      if (delta.kind == AnswerDelta::Kind::kCallEnd) part.calls.push_back(answer.call(delta.call));
    }
    return part;
  }

  Json body_of(const ParsedAnswer& part) const {
    Json body = {{"model", request_.model().id()}, {"created_at", ollama_time(std::time(nullptr))}};
    body.update(body_(part));
    return body;
  }
  void add_scores(Json& body) {
    if (!scores_.empty()) body["logprobs"] = std::exchange(scores_, Json::array());
  }

  Json last_body(const Answer& answer, const ParsedAnswer& part, const AnswerUsage& usage) {
    const auto nanoseconds = [](double seconds) { return static_cast<int64_t>(seconds * 1e9); };
    const Generation& result = answer.result();
    Json body = body_of(part);
    add_scores(body);
    body["done"] = true;
    body["done_reason"] = result.finish == FinishReason::kLength ? "length" : "stop";
    body["total_duration"] = nanoseconds(seconds_now() - request_.started);
    body["load_duration"] = nanoseconds(request_.load_seconds);
    body["prompt_eval_count"] = usage.prompt;
    body["prompt_eval_duration"] = nanoseconds(result.prompt_seconds);
    body["eval_count"] = usage.generated;
    body["eval_duration"] = nanoseconds(result.decode_seconds);
    if (context_ == nullptr) return body;
    body["context"] = *context_;
    for (const int32_t id : result.ids) body["context"].push_back(id);
    return body;
  }

  const OllamaRequest& request_;
  Body body_;
  const std::vector<int32_t>* context_;
  Json scores_ = Json::array();  // of tokens that no line has had
};

Json chat_body(const ParsedAnswer& part) {
  Json message = {{"role", "assistant"}, {"content", part.content}};
  if (!part.reasoning.empty()) message["thinking"] = part.reasoning;
  for (const ToolCall& call : part.calls)
    message["tool_calls"].push_back(
        {{"function", {{"name", call.name}, {"arguments", arguments_json(call)}}}});
  return {{"message", std::move(message)}};
}

Json generate_body(const ParsedAnswer& part) {
  Json body = {{"response", part.content}};
  if (!part.reasoning.empty()) body["thinking"] = part.reasoning;
  return body;
}

// With truncate, drops the oldest turns until the prompt fits, except system messages and the last
// turn.
RenderedChat render_within(const OllamaRequest& request, ChatPrompt& prompt) {
  const Model& model = request.model().model();
  RenderedChat chat = render_chat(model, prompt);
  if (!request.fields.flag("truncate").value_or(false)) return chat;
  const int64_t context = request.model().scheduler()->context();
  const int64_t most =
      std::min(context, request.options.members.integer("num_ctx", 1, INT32_MAX).value_or(context));
  while (std::ssize(chat.ids) >= most) {
    size_t first = 0;
    while (first < prompt.messages.size() && prompt.messages[first]["role"] == Json("system"))
      ++first;
    // A turn is dropped together with its answers.
    size_t next = first + 1;
    while (next < prompt.messages.size() && prompt.messages[next]["role"] != Json("user")) ++next;
    if (next >= prompt.messages.size()) break;
    for (; next > first; --next) prompt.messages.erase(first);
    chat = render_chat(model, prompt);
  }
  return chat;
}

}  // namespace

void ollama_chat(Context& context, const HttpRequest& http, Reply& reply) {
  const Json body = read_body(http, reply, ollama_chat_rules());
  OllamaRequest request(context, body);
  const Fields& fields = request.fields;
  const Json* given = fields.array("messages");
  if (request.answers_load(context, given == nullptr || given->empty(),
                           {{"message", {{"role", "assistant"}, {"content", ""}}}}, reply))
    return;
  request.load(context);
  ServedModel& model = request.model();
  ChatPrompt prompt{.messages = request_messages(with_ids(*given))};
  prompt.tools = read_tools(fields);
  read_think(fields, model, prompt.variables);
  check_texts(prompt.messages, model, "messages", Family::kOllama);
  RenderedChat chat = render_within(request, prompt);
  check_context(chat.ids.size(), *model.scheduler(), "messages", Family::kOllama);
  GenerateRequest generate{std::move(chat.ids),
                           read_options(request.options.members, model.model())};
  for_chat(generate.options, chat);
  limit_context(request.options, generate);
  read_scores(fields, generate);
  read_ollama_format(fields, model, chat.parser, generate);
  OllamaWriter writer(request, chat_body, nullptr);
  send_answers({.model = model,
                .generate = generate,
                .stream = request.stream,
                .parser = std::move(chat.parser)},
               writer, reply);
}

namespace {

// Returns the prompt of /api/generate: raw text, text with a suffix (fill in the middle), or a user
// message after an earlier context.
RenderedChat generate_prompt(const OllamaRequest& request, const std::string& text, bool raw) {
  const Fields& fields = request.fields;
  const Model& model = request.model().model();
  ChatPrompt prompt{.messages = Json::array()};
  read_think(fields, request.model(), prompt.variables);
  RenderedChat chat;
  const std::string suffix = fields.text("suffix").value_or("");
  if (!suffix.empty()) {
    try {
      chat.ids = infill_prompt(model, text, suffix);
    } catch (const Error& error) {
      if (error.kind() == ErrorKind::kBug) throw;
      throw ApiError(400, fmt::format("suffix: {}", error.what()), "suffix");
    }
    return chat;
  }
  if (raw) {
    chat.ids = encode_prompt(model.tokenizer(), text);
    return chat;
  }
  if (const auto system = fields.text("system"); system && !system->empty())
    prompt.messages.push_back({{"role", "system"}, {"content", *system}});
  prompt.messages.push_back({{"role", "user"}, {"content", text}});
  chat = render_chat(model, prompt);
  const Json* before = fields.array("context");
  if (before == nullptr || before->empty()) return chat;
  std::vector<int32_t> ids;
  for (const Json& id : *before) {
    if (!id.is_integer_in(0, model.config().vocab - 1))
      fields.fail("context", fmt::format("token ids from 0 to {}", model.config().vocab - 1));
    ids.push_back(id.get<int32_t>());
  }
  const Tokenizer::Special& special = model.tokenizer().special();
  const bool bos = special.bos >= 0 && !chat.ids.empty() && chat.ids.front() == special.bos;
  ids.insert(ids.end(), chat.ids.begin() + (bos ? 1 : 0), chat.ids.end());
  chat.ids = std::move(ids);
  return chat;
}

}  // namespace

void ollama_generate(Context& context, const HttpRequest& http, Reply& reply) {
  const Json body = read_body(http, reply, ollama_generate_rules());
  OllamaRequest request(context, body);
  const Fields& fields = request.fields;
  const std::string text = fields.text("prompt").value_or("");
  const bool suffixed = !fields.text("suffix").value_or("").empty();
  if (request.answers_load(context, text.empty() && !suffixed, {{"response", ""}}, reply)) return;
  request.load(context);
  ServedModel& model = request.model();
  const bool raw = fields.flag("raw").value_or(false) || model.model().chat_templates() == nullptr;
  const bool plain = raw || suffixed;
  for (const char* name : {"system", "context"})
    if (plain && fields.has(name) && !fields.find(name)->empty() &&
        !(fields.find(name)->is_string() && fields.find(name)->string().empty()))
      throw ApiError(400,
                     fmt::format("{} cannot be combined with {}", name,
                                 suffixed ? "a suffix" : "a prompt without a chat template"),
                     name);
  check_texts(text, model, "prompt", Family::kOllama);
  RenderedChat chat = generate_prompt(request, text, raw);
  check_context(chat.ids.size(), *model.scheduler(), "prompt", Family::kOllama);
  const std::vector<int32_t> ids = chat.ids;
  GenerateRequest generate{std::move(chat.ids),
                           read_options(request.options.members, model.model())};
  if (!plain) for_chat(generate.options, chat);
  limit_context(request.options, generate);
  read_scores(fields, generate);
  read_ollama_format(fields, model, chat.parser, generate);
  OllamaWriter writer(request, generate_body, plain ? nullptr : &ids);
  send_answers({.model = model,
                .generate = generate,
                .stream = request.stream,
                .parser = std::move(chat.parser)},
               writer, reply);
}

void ollama_embed(Context& context, const HttpRequest& http, Reply& reply) {
  const double started = seconds_now();
  const bool old = http.path.ends_with("/embeddings");
  const Json body = read_body(http, reply, old ? ollama_embeddings_rules() : ollama_embed_rules());
  const Fields fields(body);
  const Models::Lease lease =
      context.models.find(ollama_model(context, fields), ollama_keep_alive(fields));
  const double loaded = seconds_now();
  // The old endpoint has one prompt and one vector.
  const std::vector<std::string> texts =
      old ? std::vector{fields.require_text("prompt")} : fields.texts("input");
  if (texts.empty()) fields.fail("input", "a text or a list of texts");
  Json list = Json::array();
  int64_t tokens = 0;
  const int64_t dimensions = fields.integer("dimensions", 1, 1 << 20).value_or(0);
  const bool cuts = fields.flag("truncate").value_or(true);
  for (const TextEmbedding& one : embed_texts(*lease, texts, dimensions)) {
    if (one.cut > 0 && !cuts)
      throw ApiError(400,
                     fmt::format("input[{}] has {} tokens, expected at most {}", list.size(),
                                 one.cut + one.tokens, one.tokens),
                     "input");
    list.push_back(one.values);
    tokens += one.tokens;
  }
  reply.record().prompt_tokens = tokens;
  if (old) return reply.send(200, kJson, dump_json({{"embedding", list[0]}}));
  const auto nanoseconds = [](double seconds) { return static_cast<int64_t>(seconds * 1e9); };
  reply.send(200, kJson,
             dump_json({{"model", lease->id()},
                        {"embeddings", list},
                        {"total_duration", nanoseconds(seconds_now() - started)},
                        {"load_duration", nanoseconds(loaded - started)},
                        {"prompt_eval_count", tokens}}));
}

}  // namespace veery::serve
