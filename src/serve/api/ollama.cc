// Ollama's endpoints, as far as its clients and Open WebUI need them.
#include <fmt/format.h>

#include <chrono>
#include <cmath>
#include <ctime>

#include "base/clock.h"
#include "engine/chat.h"
#include "serve/api/answers.h"
#include "serve/api/api_error.h"
#include "serve/api/context.h"
#include "serve/api/encoding.h"
#include "serve/api/prompt.h"
#include "serve/models/keep_alive.h"
#include "serve/rules/groups.h"

namespace veery::serve {
namespace {

std::string time_text(int64_t seconds) {
  const std::time_t time = seconds;
  std::tm parts{};
  gmtime_r(&time, &parts);
  char text[40];
  std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &parts);
  return text;
}

int64_t nanoseconds(double seconds) { return static_cast<int64_t>(seconds * 1e9); }

// Seconds: a number, or a text such as "5m", "1h30m", "-1"; nothing if the field is not there.
std::optional<KeepAlive> keep_alive_of(const Fields& fields) {
  const Json* given = fields.find("keep_alive");
  if (given == nullptr || given->is_null()) return std::nullopt;
  std::optional<KeepAlive> found;
  if (given->is_number()) found = given->get<double>();
  if (given->is_string()) found = parse_duration(given->get<std::string>());
  if (!found)
    throw ApiError(400, "keep_alive is no duration, expected one such as \"5m\" or 300",
                   "keep_alive");
  return found;
}

// "smollm2:latest" is "smollm2".
std::string name_of(const Fields& fields) {
  std::string name = fields.text("model").value_or(fields.text("name").value_or(std::string()));
  if (name.empty()) fields.fail("model", "a text");
  if (name.ends_with(":latest")) name.resize(name.size() - 7);
  return name;
}

Models::Lease find_model(Context& context, const Fields& fields) {
  return context.models.find(name_of(fields), keep_alive_of(fields));
}

Json details_of(const ModelCard& model) {
  std::string type;
  int most = 0;
  for (const auto& [name, count] : model.summary.types)
    if (name != "f32" && count > most) most = count, type = name;
  return {{"parent_model", ""},
          {"format", model.gguf ? "gguf" : "safetensors"},
          {"family", model.config.architecture},
          {"families", Json::array({model.config.architecture})},
          {"parameter_size",
           fmt::format("{:.1f}M", static_cast<double>(model.summary.parameters) / 1e6)},
          {"quantization_level", type.empty() ? "f32" : type}};
}

Json entry_of(const ModelCard& model) {
  return {{"name", model.id},
          {"model", model.id},
          {"modified_at", time_text(model.created)},
          {"size", model.summary.weight_bytes},
          {"digest", ""},
          {"details", details_of(model)}};
}

GenerateOptions read_ollama_options(const Fields& fields, const Model& model) {
  static const Json kNone = Json::object();
  const Json* options = fields.object("options");
  return read_options(Fields(options != nullptr ? *options : kNone, "options."), model);
}

// "json", or a schema.
void read_ollama_format(const Fields& fields, ServedModel& model, const AnswerParser& parser,
                        GenerateRequest& request) {
  const Json* format = fields.find("format");
  if (format == nullptr || *format == "") return;
  if (*format != "json" && !format->is_object()) fields.fail("format", "\"json\" or a schema");
  hold_to_schema(format->is_object() ? *format : Json{{"type", "object"}}, model, parser, request);
}

Json statistics(const Generation& result, double started) {
  return {{"done", true},
          {"done_reason", result.finish == FinishReason::kLength ? "length" : "stop"},
          {"total_duration", nanoseconds(seconds_now() - started)},
          {"load_duration", 0},
          {"prompt_eval_count", result.prompt_tokens + result.reused_tokens},
          {"prompt_eval_duration", nanoseconds(result.prompt_seconds)},
          {"eval_count", result.ids.size()},
          {"eval_duration", nanoseconds(result.decode_seconds)}};
}

/// Answers as lines of JSON, or as one object.
template <typename Body>
void answer(Reply& reply, Answers& answers, AnswerParser& parser, bool stream,
            const Body& body_of) {
  const double started = seconds_now();
  const auto line = [&](const Json& json) {
    if (!reply.begun()) reply.begin(200, kLines);
    return reply.write(dump_json(json) + "\n");
  };
  while (const auto event = answers.next()) {
    if (event->index < 0) continue;
    ParsedAnswer piece;
    std::vector<AnswerDelta> deltas = parser.push(event->piece.text);
    if (event->over)
      for (AnswerDelta& delta : parser.finish()) deltas.push_back(std::move(delta));
    for (const AnswerDelta& delta : deltas) {
      if (delta.kind == AnswerDelta::Kind::kContent) piece.content += delta.text;
      if (delta.kind == AnswerDelta::Kind::kReasoning) piece.reasoning += delta.text;
      if (delta.kind == AnswerDelta::Kind::kCallEnd)
        piece.calls.push_back(parser.answer().calls[delta.call]);
    }
    if (!stream || (piece.content.empty() && piece.reasoning.empty() && piece.calls.empty()))
      continue;
    Json body = body_of(piece);
    body["done"] = false;
    if (!line(body)) return;
  }
  Json body = body_of(stream ? ParsedAnswer() : parser.answer());
  body.update(statistics(answers.result(0), started));
  if (!stream) return reply.send(200, kJson, dump_json(body));
  line(body);
  reply.end();
}

}  // namespace

void ollama_version(Context& context, const HttpRequest&, Reply& reply) {
  reply.send(200, kJson, dump_json({{"version", context.version}}));
}

void ollama_tags(Context& context, const HttpRequest&, Reply& reply) {
  Json list = Json::array();
  for (const Models::View& view : context.models.all()) list.push_back(entry_of(*view.card));
  reply.send(200, kJson, dump_json({{"models", list}}));
}

void ollama_running(Context& context, const HttpRequest&, Reply& reply) {
  Json list = Json::array();
  for (const Models::View& view : context.models.all()) {
    if (!view.model) continue;
    Json entry = entry_of(*view.card);
    entry["size"] = view.bytes;
    entry["expires_at"] = view.expires < 0
                              ? "9999-12-31T23:59:59Z"  // it stays
                              : time_text(std::time(nullptr) + static_cast<int64_t>(view.expires));
    entry["size_vram"] = 0;
    entry["context_length"] = view.card->context;
    list.push_back(std::move(entry));
  }
  reply.send(200, kJson, dump_json({{"models", list}}));
}

void ollama_show(Context& context, const HttpRequest& http, Reply& reply) {
  const Json body = read_body(http, reply, ollama_show_rules());
  const Models::View view = context.models.view(name_of(Fields(body)));
  const ModelCard& card = *view.card;
  const TransformerConfig& c = card.config;
  const bool embeds = std::string_view(card.makes) == "embeddings";
  Json capabilities = Json::array({embeds ? "embedding" : "completion"});
  if (view.model && !view.model->model().answer_format().features().empty())
    capabilities.push_back("tools");
  reply.send(200, kJson,
             dump_json({{"modelfile", ""},
                        {"parameters", ""},
                        {"template", chat_template_source(card.path)},
                        {"details", details_of(card)},
                        {"model_info",
                         {{"general.architecture", c.architecture},
                          {c.architecture + ".context_length", c.context},
                          {c.architecture + ".embedding_length", c.dim},
                          {c.architecture + ".block_count", c.layers}}},
                        {"capabilities", capabilities}}));
}

void ollama_chat(Context& context, const HttpRequest& http, Reply& reply) {
  const Json body = read_body(http, reply, ollama_chat_rules());
  const Fields fields(body);
  const Models::Lease lease = find_model(context, fields);
  ServedModel& model = *lease;
  Scheduler& scheduler = require_scheduler(model);
  const Json none = Json::array();
  const Json* given = fields.array("messages");
  if (given == nullptr || given->empty()) {  // clients load a model this way
    Json done = {{"model", model.id()},
                 {"created_at", time_text(std::time(nullptr))},
                 {"message", {{"role", "assistant"}, {"content", ""}}},
                 {"done_reason", "load"},
                 {"done", true}};
    return reply.send(200, kJson, dump_json(done));
  }
  ChatPrompt prompt{normal_messages(*given), {}, {}, Json::object()};
  prompt.tools = read_tools(fields);
  const Json* think = fields.find("think");
  if (think != nullptr && !think->is_boolean() && !think->is_string())
    fields.fail("think", "true, false, \"low\", \"medium\" or \"high\"");
  if (think != nullptr && think->is_boolean()) prompt.variables["enable_thinking"] = *think;
  RenderedChat chat = render_for_answer(model, prompt, "messages", Family::kOllama);
  GenerateRequest request{std::move(chat.ids), read_ollama_options(fields, model.model())};
  for_chat(request.options, model.model());
  read_ollama_format(fields, model, chat.parser, request);
  Answers answers(scheduler, request, 1, reply);
  answer(reply, answers, chat.parser, fields.flag("stream").value_or(true),
         [&](const ParsedAnswer& piece) {
           Json message = {{"role", "assistant"}, {"content", piece.content}};
           if (!piece.reasoning.empty()) message["thinking"] = piece.reasoning;
           for (const ToolCall& call : piece.calls) {
             std::optional<Json> arguments = maybe_json(call.arguments);
             message["tool_calls"].push_back(
                 {{"function",
                   {{"name", call.name},
                    {"arguments", arguments ? std::move(*arguments) : Json::object()}}}});
           }
           return Json{{"model", model.id()},
                       {"created_at", time_text(std::time(nullptr))},
                       {"message", std::move(message)}};
         });
}

void ollama_generate(Context& context, const HttpRequest& http, Reply& reply) {
  const Json body = read_body(http, reply, ollama_generate_rules());
  const Fields fields(body);
  const Models::Lease lease = find_model(context, fields);
  ServedModel& model = *lease;
  Scheduler& scheduler = require_scheduler(model);
  const std::string text = fields.text("prompt").value_or("");
  const bool raw = fields.flag("raw").value_or(false) || model.model().chat_template() == nullptr;
  const auto body_of = [&](const ParsedAnswer& piece) {
    Json json = {{"model", model.id()},
                 {"created_at", time_text(std::time(nullptr))},
                 {"response", piece.content}};
    if (!piece.reasoning.empty()) json["thinking"] = piece.reasoning;
    return json;
  };
  if (text.empty()) {
    Json done = body_of({});
    done["done"] = true;
    done["done_reason"] = "load";
    return reply.send(200, kJson, dump_json(done));
  }
  RenderedChat chat{{}, AnswerParser(AnswerFormat())};
  if (raw) {
    check_texts(text, model, "prompt", Family::kOllama);
    chat.ids = encode_prompt(model.model().tokenizer(), text);
  } else {
    Json messages = Json::array();
    if (const auto system = fields.text("system"); system && !system->empty())
      messages.push_back({{"role", "system"}, {"content", *system}});
    messages.push_back({{"role", "user"}, {"content", text}});
    chat = render_for_answer(model, {messages, {}, {}, Json::object()}, "prompt", Family::kOllama);
  }
  check_context(chat.ids.size(), scheduler, "prompt", Family::kOllama);
  GenerateRequest request{std::move(chat.ids), read_ollama_options(fields, model.model())};
  if (!raw) for_chat(request.options, model.model());
  read_ollama_format(fields, model, chat.parser, request);
  Answers answers(scheduler, request, 1, reply);
  answer(reply, answers, chat.parser, fields.flag("stream").value_or(true), body_of);
}

void ollama_embed(Context& context, const HttpRequest& http, Reply& reply) {
  const Json body = read_body(http, reply, ollama_embed_rules());
  const Fields fields(body);
  const Models::Lease lease = find_model(context, fields);
  ServedModel& model = *lease;
  const std::vector<std::string> texts = fields.texts("input");
  if (texts.empty()) fields.fail("input", "a text or a list of texts");
  Json list = Json::array();
  int64_t tokens = 0;
  const int64_t dimensions = fields.integer("dimensions", 1, 1 << 20).value_or(0);
  for (const TextEmbedding& one : embed_texts(model, texts, dimensions)) {
    list.push_back(one.values);
    tokens += one.tokens;
  }
  reply.send(
      200, kJson,
      dump_json({{"model", model.id()}, {"embeddings", list}, {"prompt_eval_count", tokens}}));
}

}  // namespace veery::serve
