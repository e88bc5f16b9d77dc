// POST /v1/chat/completions
#include <fmt/format.h>

#include <ctime>
#include <utility>

#include "chat/reasoning.h"
#include "serve/api/answer_form.h"
#include "serve/api/answers.h"
#include "serve/api/api_error.h"
#include "serve/api/context.h"
#include "serve/api/openai.h"
#include "serve/api/prompt.h"
#include "serve/api/token_fields.h"
#include "serve/api/tool_choice.h"
#include "serve/openai/chunk_writer.h"
#include "serve/rules/groups.h"

namespace veery::serve {
namespace {

struct ChatRequest {
  Models::Lease model;
  ChatPrompt prompt;
  ToolChoice choice;
  GenerateRequest generate;
  int32_t count = 1;
  bool stream = false, usage = false;
  std::string id;
  int64_t created = 0;
};

void read_variables(const Fields& fields, ChatPrompt& prompt) {
  if (const auto effort = fields.text("reasoning_effort"))
    set_reasoning_effort(prompt.variables, *effort);
  if (const auto verbosity = fields.text("verbosity")) prompt.variables["verbosity"] = *verbosity;
}

ChatRequest read_chat(Context& context, const Json& body) {
  const Fields fields(body);
  ChatRequest request;
  request.model = context.models.find(fields.text("model").value_or(""));
  require_scheduler(*request.model);
  const Model& model = request.model->model();
  request.prompt.messages = request_messages(fields.require_array("messages"));
  request.choice = read_tool_choice(fields);
  if (!request.choice.none)
    request.prompt.tools = allowed_tools(request.choice, read_tools(fields));
  read_variables(fields, request.prompt);
  read_template_fields(fields, model, request.prompt);
  request.generate.options = read_options(fields, model);
  request.count = static_cast<int32_t>(fields.integer("n", 1, 128).value_or(1));
  const auto top = static_cast<int32_t>(fields.integer("top_logprobs", 0, 20).value_or(0));
  if (fields.flag("logprobs").value_or(false)) request.generate.logprobs = top;
  request.stream = fields.flag("stream").value_or(false);
  request.usage = read_include_usage(fields);
  request.id = random_id("chatcmpl-");
  request.created = std::time(nullptr);
  return request;
}

Json frame_of(const ChatRequest& request, const char* object) {
  return {{"id", request.id},
          {"object", object},
          {"created", request.created},
          {"model", request.model->id()},
          {"system_fingerprint", nullptr}};
}

/// Writes chat completions and their chunks.
class ChatWriter : public ChunkWriter {
 public:
  explicit ChatWriter(const ChatRequest& request)
      : ChunkWriter(frame_of(request, "chat.completion.chunk"), request.usage),
        request_(request),
        model_(request.model->model()) {}

  Json whole(AnswerList answers, const AnswerUsage& usage) override {
    Json body = frame_of(request_, "chat.completion");
    body["choices"] = Json::array();
    for (const Answer& answer : answers) {
      Json scores;
      if (request_.generate.logprobs >= 0) scores = logprobs_json(answer.pieces);
      body["choices"].push_back({{"index", answer.index},
                                 {"message", message_of(answer.parsed())},
                                 {"logprobs", std::move(scores)},
                                 {"finish_reason", finish_reason(answer)},
                                 {"stop_reason", stop_reason(answer.result())}});
    }
    body["usage"] = usage_json(usage);
    return body;
  }

  void begin(AnswerList answers, EventStream& stream) override {
    for (const Answer& answer : answers)
      chunk(answer, {{"role", "assistant"}, {"content", ""}}, {}, {}, stream);
  }
  void add(const Answer& answer, const AnswerPiece& piece, EventStream& stream) override {
    Json scores;
    if (!piece.scores.empty()) scores = logprobs_json({&piece, 1});
    for (const AnswerDelta& delta : piece.deltas)
      if (std::optional<Json> json = delta_json(delta, answer))
        chunk(answer, std::move(*json), std::exchange(scores, {}), {}, stream);
    if (!scores.is_null()) chunk(answer, Json::object(), std::move(scores), {}, stream);
  }
  void end(const Answer& answer, EventStream& stream) override {
    chunk(answer, Json::object(), {}, finish_reason(answer), stream);
  }

 private:
  void chunk(const Answer& answer, Json delta, Json scores, Json finish,
             EventStream& stream) const {
    send({{"index", answer.index},
          {"delta", std::move(delta)},
          {"logprobs", std::move(scores)},
          {"finish_reason", std::move(finish)}},
         stream);
  }

  Json logprobs_json(std::span<const AnswerPiece> pieces) const {
    return {{"content", scores_json(pieces, model_.tokenizer())}, {"refusal", nullptr}};
  }

  std::string id_of(const ToolCall& call) const {
    return call.id.empty() ? new_call_id(model_) : call.id;
  }

  Json message_of(const ParsedAnswer& answer) const {
    Json message = {{"role", "assistant"}, {"content", answer.content}, {"refusal", nullptr}};
    if (!answer.reasoning.empty()) message["reasoning_content"] = answer.reasoning;
    if (answer.calls.empty()) return message;
    if (answer.content.empty()) message["content"] = nullptr;
    message["tool_calls"] = Json::array();
    for (const ToolCall& call : answer.calls)
      message["tool_calls"].push_back(
          {{"id", id_of(call)},
           {"type", "function"},
           {"function", {{"name", call.name}, {"arguments", call.arguments}}}});
    return message;
  }

  // Returns the "delta" of a chunk; absent: the delta is not sent.
  std::optional<Json> delta_json(const AnswerDelta& delta, const Answer& answer) const {
    const auto index = static_cast<int64_t>(delta.call);
    switch (delta.kind) {
      case AnswerDelta::Kind::kContent: return Json{{"content", delta.text}};
      case AnswerDelta::Kind::kReasoning: return Json{{"reasoning_content", delta.text}};
      case AnswerDelta::Kind::kCall:
        return Json{{"tool_calls",
                     Json::array({{{"index", index},
                                   {"id", id_of(answer.call(delta.call))},
                                   {"type", "function"},
                                   {"function", {{"name", delta.text}, {"arguments", ""}}}}})}};
      case AnswerDelta::Kind::kArguments:
        return Json{{"tool_calls",
                     Json::array({{{"index", index}, {"function", {{"arguments", delta.text}}}}})}};
      case AnswerDelta::Kind::kCallEnd: break;
    }
    return std::nullopt;
  }

  const ChatRequest& request_;
  const Model& model_;
};

}  // namespace

void chat_completions(Context& context, const HttpRequest& http, Reply& reply) {
  const Json body = read_body(http, reply, chat_rules());
  ChatRequest request = read_chat(context, body);
  const Fields fields(body);
  const bool cut = fields.has("truncate_prompt_tokens");
  RenderedChat chat = cut ? render_chat(request.model->model(), request.prompt)
                          : render_for_answer(*request.model, request.prompt, "messages");
  Scheduler& scheduler = *request.model->scheduler();
  truncate_prompt(fields, scheduler.context(), chat.ids);
  for_chat(request.generate.options, chat);
  read_answer_form(fields, *request.model, chat.parser, request.generate);
  constrain_calls(request.choice, request.prompt, chat, *request.model, request.generate, reply,
                  "tools[].function.strict");
  limit_reasoning(fields, chat.parser, request.generate);
  request.generate.prompt = std::move(chat.ids);
  ChatWriter writer(request);
  send_answers({.model = *request.model,
                .generate = request.generate,
                .count = request.count,
                .stream = request.stream,
                .parser = chat.parser,
                .choice = request.choice},
               writer, reply);
}

}  // namespace veery::serve
