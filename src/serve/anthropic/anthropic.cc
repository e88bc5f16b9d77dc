// POST /v1/messages, /v1/messages/count_tokens
#include <fmt/format.h>

#include <utility>

#include "serve/anthropic/anthropic_prompt.h"
#include "serve/api/answers.h"
#include "serve/api/api_error.h"
#include "serve/api/context.h"
#include "serve/api/tool_choice.h"
#include "serve/rules/groups.h"

namespace veery::serve {
namespace {

Json stop_sequence(const Generation& result) {
  return result.stop.empty() ? Json() : Json(result.stop);
}

const char* stop_reason(const Answer& answer) {
  if (answer.result().finish == FinishReason::kLength) return "max_tokens";
  if (!answer.result().stop.empty()) return "stop_sequence";
  return answer.calls() ? "tool_use" : "end_turn";
}

Json usage_of(int64_t input, int64_t cached, int64_t output) {
  return {{"input_tokens", input},
          {"cache_creation_input_tokens", 0},
          {"cache_read_input_tokens", cached},
          {"output_tokens", output}};
}

Json usage_of(const AnswerUsage& usage) {
  return usage_of(usage.prompt - usage.cached, usage.cached, usage.generated);
}

std::string id_of(const ToolCall& call) { return call.id.empty() ? random_id("toolu_") : call.id; }

/// Writes a message. Its stream has blocks; a new one begins when the kind of the content changes.
class MessageWriter : public ReplyWriter {
 public:
  /// `prompt`: the tokens of the prompt.
  MessageWriter(const ServedModel& model, size_t prompt, bool hide_thinking)
      : model_(model), prompt_(static_cast<int64_t>(prompt)), hidden_(hide_thinking) {}

  Json whole(AnswerList answers, const AnswerUsage& usage) override {
    const Answer& answer = answers.front();
    Json message = message_of(blocks_of(answer.parsed()), usage_of(usage));
    message["stop_reason"] = stop_reason(answer);
    message["stop_sequence"] = stop_sequence(answer.result());
    return message;
  }

  void begin(AnswerList, EventStream& stream) override {
    send("message_start", {{"message", message_of(Json::array(), usage_of(prompt_, 0, 0))}},
         stream);
  }
  void ping(EventStream& stream) override { send("ping", Json::object(), stream); }
  void add(const Answer& answer, const AnswerPiece& piece, EventStream& stream) override {
    for (const AnswerDelta& delta : piece.deltas) show(delta, answer, stream);
  }
  void finish(AnswerList answers, const AnswerUsage& usage, EventStream& stream) override {
    const Answer& answer = answers.front();
    close(stream);
    send("message_delta",
         {{"delta",
           {{"stop_reason", stop_reason(answer)},
            {"stop_sequence", stop_sequence(answer.result())}}},
          {"usage", usage_of(usage)}},
         stream);
    send("message_stop", Json::object(), stream);
  }

 private:
  Json blocks_of(const ParsedAnswer& answer) const {
    Json blocks = Json::array();
    if (!answer.reasoning.empty())
      blocks.push_back({{"type", "thinking"},
                        {"thinking", hidden_ ? "" : answer.reasoning},
                        {"signature", thinking_signature(answer.reasoning, hidden_)}});
    if (!answer.content.empty()) blocks.push_back({{"type", "text"}, {"text", answer.content}});
    for (const ToolCall& call : answer.calls)
      blocks.push_back({{"type", "tool_use"},
                        {"id", id_of(call)},
                        {"name", call.name},
                        {"input", arguments_json(call)}});
    return blocks;
  }
  Json message_of(Json content, Json usage) const {
    return {{"id", random_id("msg_")},  {"type", "message"},        {"role", "assistant"},
            {"model", model_.id()},     {"content", content},       {"stop_reason", nullptr},
            {"stop_sequence", nullptr}, {"usage", std::move(usage)}};
  }

  static void send(const char* type, Json body, EventStream& stream) {
    Json event = {{"type", type}};
    event.update(body);
    stream.event(type, event);
  }
  void send_delta(Json delta, EventStream& stream) const {
    send("content_block_delta", {{"index", index_}, {"delta", std::move(delta)}}, stream);
  }
  void close(EventStream& stream) {
    if (open_.empty()) return;
    if (open_ == "thinking")
      send_delta({{"type", "signature_delta"},
                  {"signature", thinking_signature(std::exchange(thought_, {}), hidden_)}},
                 stream);
    send("content_block_stop", {{"index", index_++}}, stream);
    open_.clear();
  }
  void open(const std::string& kind, Json block, EventStream& stream) {
    if (open_ == kind) return;
    close(stream);
    open_ = kind;
    send("content_block_start", {{"index", index_}, {"content_block", std::move(block)}}, stream);
  }
  void show(const AnswerDelta& delta, const Answer& answer, EventStream& stream) {
    switch (delta.kind) {
      case AnswerDelta::Kind::kContent:
        open("text", {{"type", "text"}, {"text", ""}}, stream);
        return send_delta({{"type", "text_delta"}, {"text", delta.text}}, stream);
      case AnswerDelta::Kind::kReasoning:
        open("thinking", {{"type", "thinking"}, {"thinking", ""}, {"signature", ""}}, stream);
        if (hidden_)
          thought_ += delta.text;
        else
          send_delta({{"type", "thinking_delta"}, {"thinking", delta.text}}, stream);
        return;
      case AnswerDelta::Kind::kCall:
        return open(fmt::format("call {}", delta.call),
                    {{"type", "tool_use"},
                     {"id", id_of(answer.call(delta.call))},
                     {"name", delta.text},
                     {"input", Json::object()}},
                    stream);
      case AnswerDelta::Kind::kArguments:
        return send_delta({{"type", "input_json_delta"}, {"partial_json", delta.text}}, stream);
      case AnswerDelta::Kind::kCallEnd: return close(stream);
    }
  }

  const ServedModel& model_;
  int64_t prompt_;
  bool hidden_;
  std::string open_, thought_;  // thought_: text of a hidden thinking block
  int64_t index_ = 0;
};

// Reads the options. Stop texts have two names; format and length have fields of their own.
GenerateRequest read_generation(const Fields& fields, const AnthropicPrompt& asked,
                                ServedModel& model, RenderedChat& chat, Reply& reply) {
  GenerateRequest request{std::move(chat.ids), read_options(fields, model.model())};
  for_chat(request.options, chat);
  for (const std::string& stop : fields.texts("stop_sequences")) {
    if (stop.empty()) fields.fail("stop_sequences", "texts that are not empty");
    request.options.stops.push_back(stop);
  }
  read_format(asked.format, model, chat.parser, request, asked.format_field);
  constrain_calls(asked.choice, asked.chat, chat, model, request, reply);
  limit_reasoning(fields, chat.parser, request, asked.thinking_budget);
  return request;
}

}  // namespace

void messages(Context& context, const HttpRequest& http, Reply& reply) {
  const Json body = read_body(http, reply, message_api_rules());
  const Fields fields(body);
  const Models::Lease lease = context.models.find(fields.text("model").value_or(""));
  ServedModel& model = *lease;
  require_scheduler(model);
  if (!fields.integer("max_tokens", 0, INT64_MAX / 2)) fields.fail("max_tokens", "a number");
  const bool stream = fields.flag("stream").value_or(false);
  const AnthropicPrompt asked = read_anthropic_prompt(fields);
  RenderedChat chat = render_for_answer(model, asked.chat, "messages", Family::kAnthropic);
  const GenerateRequest request = read_generation(fields, asked, model, chat, reply);
  MessageWriter writer(model, request.prompt.size(), asked.hide_thinking);
  send_answers({.model = model,
                .generate = request,
                .stream = stream,
                .parser = std::move(chat.parser),
                .choice = asked.choice},
               writer, reply);
}

void count_tokens(Context& context, const HttpRequest& http, Reply& reply) {
  const Json body = read_body(http, reply, count_tokens_rules());
  const Fields fields(body);
  const Models::Lease lease = context.models.find(fields.text("model").value_or(""));
  const RenderedChat chat = render_chat(lease->model(), read_anthropic_prompt(fields).chat);
  reply.send(200, kJson, dump_json({{"input_tokens", chat.ids.size()}}));
}

}  // namespace veery::serve
