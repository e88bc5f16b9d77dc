// POST /v1/messages, /v1/messages/count_tokens
#include <fmt/format.h>

#include <utility>

#include "serve/anthropic/anthropic_prompt.h"
#include "serve/api/answers.h"
#include "serve/api/api_error.h"
#include "serve/api/context.h"
#include "serve/api/openai.h"
#include "serve/api/tool_choice.h"
#include "serve/rules/groups.h"

namespace veery::serve {
namespace {

const char* stop_reason(const Generation& result, const ParsedAnswer& answer) {
  if (result.finish == FinishReason::kLength) return "max_tokens";
  if (!result.stop.empty()) return "stop_sequence";
  return answer.calls.empty() ? "end_turn" : "tool_use";
}

Json stop_sequence(const Generation& result) {
  return result.stop.empty() ? Json() : Json(result.stop);
}

Json usage_of(const Generation& result) {
  return {{"input_tokens", result.prompt_tokens},
          {"cache_creation_input_tokens", 0},
          {"cache_read_input_tokens", result.reused_tokens},
          {"output_tokens", result.ids.size()}};
}

Json input_of(const ToolCall& call) {
  std::optional<Json> input = maybe_json(call.arguments);
  return input && input->is_object() ? *input : Json::object();
}

Json blocks_of(const ParsedAnswer& answer, bool hidden) {
  Json blocks = Json::array();
  if (!answer.reasoning.empty())
    blocks.push_back({{"type", "thinking"},
                      {"thinking", hidden ? "" : answer.reasoning},
                      {"signature", thinking_signature(answer.reasoning, hidden)}});
  if (!answer.content.empty()) blocks.push_back({{"type", "text"}, {"text", answer.content}});
  for (const ToolCall& call : answer.calls)
    blocks.push_back({{"type", "tool_use"},
                      {"id", call.id.empty() ? random_id("toolu_") : call.id},
                      {"name", call.name},
                      {"input", input_of(call)}});
  return blocks;
}

Json message_of(const ServedModel& model, Json content, Json usage) {
  return {{"id", random_id("msg_")},  {"type", "message"},        {"role", "assistant"},
          {"model", model.id()},      {"content", content},       {"stop_reason", nullptr},
          {"stop_sequence", nullptr}, {"usage", std::move(usage)}};
}

/// Streams an answer as blocks; a new block begins when the kind of the content changes.
class MessageStream {
 public:
  MessageStream(Reply& reply, const AnthropicPrompt& asked)
      : events_(reply), hidden_(asked.hide_thinking), limit_(asked.choice) {}

  void run(const ServedModel& model, size_t prompt, Answers& answers, AnswerParser& parser) {
    const Json usage = {{"input_tokens", prompt},
                        {"cache_creation_input_tokens", 0},
                        {"cache_read_input_tokens", 0},
                        {"output_tokens", 0}};
    send("message_start", {{"message", message_of(model, Json::array(), usage)}});
    while (const auto event = answers.next()) {
      if (event->index < 0) {
        if (!send("ping", Json::object())) return;
        continue;
      }
      std::vector<AnswerDelta> deltas = parser.push(event->piece.text);
      if (event->over)
        for (AnswerDelta& delta : parser.finish()) deltas.push_back(std::move(delta));
      if (limit_.apply(deltas)) answers.cancel();
      for (const AnswerDelta& delta : deltas)
        if (!show(delta, parser)) return;
    }
    close();
    const Generation& result = answers.result(0);
    send("message_delta", {{"delta",
                            {{"stop_reason", stop_reason(result, parser.answer())},
                             {"stop_sequence", stop_sequence(result)}}},
                           {"usage", usage_of(result)}});
    send("message_stop", Json::object());
    events_.end();
  }

 private:
  bool send(const char* type, Json body) {
    Json event = {{"type", type}};
    event.update(body);
    return events_.event(type, event);
  }
  void close() {
    if (open_.empty()) return;
    if (open_ == "thinking")
      send("content_block_delta",
           {{"index", index_},
            {"delta",
             {{"type", "signature_delta"},
              {"signature", thinking_signature(std::exchange(thought_, {}), hidden_)}}}});
    send("content_block_stop", {{"index", index_++}});
    open_.clear();
  }
  void open(const std::string& kind, Json block) {
    if (open_ == kind) return;
    close();
    open_ = kind;
    send("content_block_start", {{"index", index_}, {"content_block", std::move(block)}});
  }
  bool show(const AnswerDelta& delta, const AnswerParser& parser) {
    Json piece;
    switch (delta.kind) {
      case AnswerDelta::Kind::kContent:
        open("text", {{"type", "text"}, {"text", ""}});
        piece = {{"type", "text_delta"}, {"text", delta.text}};
        break;
      case AnswerDelta::Kind::kReasoning:
        open("thinking", {{"type", "thinking"}, {"thinking", ""}, {"signature", ""}});
        if (hidden_) {
          thought_ += delta.text;
          return true;
        }
        piece = {{"type", "thinking_delta"}, {"thinking", delta.text}};
        break;
      case AnswerDelta::Kind::kCall: {
        const std::string& id = parser.answer().calls[delta.call].id;
        open(fmt::format("call {}", delta.call), {{"type", "tool_use"},
                                                  {"id", id.empty() ? random_id("toolu_") : id},
                                                  {"name", delta.text},
                                                  {"input", Json::object()}});
        return true;
      }
      case AnswerDelta::Kind::kArguments:
        piece = {{"type", "input_json_delta"}, {"partial_json", delta.text}};
        break;
      case AnswerDelta::Kind::kCallEnd: close(); return true;
    }
    return send("content_block_delta", {{"index", index_}, {"delta", std::move(piece)}});
  }

  EventStream events_;
  bool hidden_;
  CallLimit limit_;
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
  const size_t prompt = request.prompt.size();
  Answers answers(model, request, 1, reply);
  if (stream) return MessageStream(reply, asked).run(model, prompt, answers, chat.parser);
  CallLimit limit(asked.choice);
  while (const auto event = answers.next()) {
    std::vector<AnswerDelta> deltas = chat.parser.push(event->piece.text);
    if (limit.apply(deltas)) answers.cancel();
  }
  chat.parser.finish();
  const Generation& result = answers.result(0);
  const ParsedAnswer answer = limit.limited(chat.parser.answer());
  Json message = message_of(model, blocks_of(answer, asked.hide_thinking), usage_of(result));
  message["stop_reason"] = stop_reason(result, answer);
  message["stop_sequence"] = stop_sequence(result);
  reply.send(200, kJson, dump_json(message));
}

void count_tokens(Context& context, const HttpRequest& http, Reply& reply) {
  const Json body = read_body(http, reply, count_tokens_rules());
  const Fields fields(body);
  const Models::Lease lease = context.models.find(fields.text("model").value_or(""));
  const RenderedChat chat = render_chat(lease->model(), read_anthropic_prompt(fields).chat);
  reply.send(200, kJson, dump_json({{"input_tokens", chat.ids.size()}}));
}

}  // namespace veery::serve
