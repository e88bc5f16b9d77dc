// POST /v1/messages, /v1/messages/count_tokens
#include <fmt/format.h>

#include "serve/api/answers.h"
#include "serve/api/api_error.h"
#include "serve/api/context.h"
#include "serve/api/openai.h"
#include "serve/api/prompt.h"
#include "serve/api/tool_choice.h"

namespace veery::serve {
namespace {

// The texts of blocks; those of other types are refused.
std::string block_text(const Json& content, const std::string& where) {
  if (content.is_string()) return content.string();
  if (!content.is_array())
    throw ApiError(400, fmt::format("{}: expected a text or a list of blocks", where), where);
  std::string text;
  for (const Json& block : content) {
    if (!block.is_object() || !block.contains("type") || block["type"] != "text" ||
        !block.contains("text") || !block["text"].is_string())
      throw ApiError(400,
                     fmt::format("{}: a block is not of type text, the only one that this "
                                 "model reads",
                                 where),
                     where);
    text += block["text"].string();
  }
  return text;
}

// One message becomes several where it holds results of tools.
void add_message(const Json& message, size_t i, Json& out) {
  const std::string where = fmt::format("messages[{}]", i);
  const Fields fields(message, where + ".");
  const std::string role = fields.require_text("role");
  if (role != "user" && role != "assistant" && role != "system")
    fields.fail("role", "user or assistant");
  const Json* content = fields.find("content");
  if (content == nullptr) fields.fail("content", "a text or a list of blocks");
  if (content->is_string()) {
    out.push_back({{"role", role}, {"content", *content}});
    return;
  }
  if (!content->is_array()) fields.fail("content", "a text or a list of blocks");
  std::string text, thinking;
  Json calls = Json::array();
  for (const Json& block : *content) {
    const Fields part(block, where + ".content.");
    const std::string type = part.require_text("type");
    if (type == "text") {
      text += part.require_text("text");
    } else if (type == "thinking") {
      thinking += part.require_text("thinking");
    } else if (type == "redacted_thinking") {
      continue;
    } else if (type == "tool_use") {
      const Json* input = part.object("input");
      calls.push_back({{"id", part.require_text("id")},
                       {"type", "function"},
                       {"function",
                        {{"name", part.require_text("name")},
                         {"arguments", input != nullptr ? *input : Json::object()}}}});
    } else if (type == "tool_result") {
      const Json* result = part.find("content");
      out.push_back({{"role", "tool"},
                     {"tool_call_id", part.require_text("tool_use_id")},
                     {"content", result == nullptr ? "" : block_text(*result, where)}});
    } else {
      throw ApiError(400,
                     fmt::format("{}: blocks of type '{}' cannot be read by this model", where,
                                 type.substr(0, 40)),
                     where);
    }
  }
  if (text.empty() && calls.empty() && role == "user") return;  // results of tools alone
  Json result = {{"role", role}, {"content", text}};
  if (!thinking.empty()) result["reasoning_content"] = thinking;
  if (!calls.empty()) result["tool_calls"] = std::move(calls);
  out.push_back(std::move(result));
}

Json read_tools(const Fields& fields) {
  const Json* tools = fields.array("tools");
  if (tools == nullptr || tools->empty()) return {};
  Json result = Json::array();
  for (size_t i = 0; i < tools->size(); ++i) {
    const Fields tool((*tools)[i], fmt::format("tools[{}].", i));
    const Json* schema = tool.object("input_schema");
    result.push_back({{"type", "function"},
                      {"function",
                       {{"name", tool.require_text("name")},
                        {"description", tool.text("description").value_or("")},
                        {"parameters", schema != nullptr ? *schema : Json::object()}}}});
  }
  return result;
}

ToolChoice read_choice(const Fields& fields) {
  const Json* given = fields.object("tool_choice");
  if (given == nullptr) return {};
  const Fields choice(*given, "tool_choice.");
  const std::string type = choice.require_text("type");
  if (type != "auto" && type != "none" && type != "any" && type != "tool")
    choice.fail("type", "auto, none, any or tool");
  return {.none = type == "none",
          .must = type == "any" || type == "tool",
          .name = type == "tool" ? choice.require_text("name") : std::string(),
          .several = !choice.flag("disable_parallel_tool_use").value_or(false)};
}

ChatPrompt read_prompt(const Fields& fields, const Model& model) {
  ChatPrompt prompt;
  Json messages = Json::array();
  if (const Json* system = fields.find("system"))
    messages.push_back({{"role", "system"}, {"content", block_text(*system, "system")}});
  const Json& given = fields.require_array("messages");
  if (given.empty()) fields.fail("messages", "one or more");
  for (size_t i = 0; i < given.size(); ++i) add_message(given[i], i, messages);
  prompt.messages = normal_messages(messages, model);
  if (!read_choice(fields).none) prompt.tools = read_tools(fields);
  if (const Json* thinking = fields.object("thinking"))
    prompt.variables["enable_thinking"] =
        Fields(*thinking, "thinking.").require_text("type") != "disabled";
  return prompt;
}

const char* stop_reason(const Generation& result, const ParsedAnswer& answer) {
  if (result.finish == FinishReason::kLength) return "max_tokens";
  return answer.calls.empty() ? "end_turn" : "tool_use";
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

Json blocks_of(const ParsedAnswer& answer) {
  Json blocks = Json::array();
  if (!answer.reasoning.empty())
    blocks.push_back({{"type", "thinking"}, {"thinking", answer.reasoning}, {"signature", ""}});
  if (!answer.content.empty()) blocks.push_back({{"type", "text"}, {"text", answer.content}});
  for (const ToolCall& call : answer.calls)
    blocks.push_back({{"type", "tool_use"},
                      {"id", call.id.empty() ? random_id("toolu_") : call.id},
                      {"name", call.name},
                      {"input", input_of(call)}});
  return blocks;
}

Json message_of(const ServedModel& model, Json content, Json reason, Json usage) {
  return {{"id", random_id("msg_")},  {"type", "message"},        {"role", "assistant"},
          {"model", model.id()},      {"content", content},       {"stop_reason", reason},
          {"stop_sequence", nullptr}, {"usage", std::move(usage)}};
}

/// Blocks that begin and end as the kind of what comes changes.
class MessageStream {
 public:
  explicit MessageStream(Reply& reply) : events_(reply) {}

  void run(const ServedModel& model, size_t prompt, Answers& answers, AnswerParser& parser) {
    const Json usage = {{"input_tokens", prompt}, {"output_tokens", 0}};
    send("message_start", {{"message", message_of(model, Json::array(), nullptr, usage)}});
    while (const auto event = answers.next()) {
      if (event->index < 0) {
        if (!send("ping", Json::object())) return;
        continue;
      }
      for (const AnswerDelta& delta : parser.push(event->piece.text))
        if (!show(delta, parser)) return;
      if (!event->over) continue;
      for (const AnswerDelta& delta : parser.finish())
        if (!show(delta, parser)) return;
    }
    close();
    const Generation& result = answers.result(0);
    send("message_delta",
         {{"delta",
           {{"stop_reason", stop_reason(result, parser.answer())}, {"stop_sequence", nullptr}}},
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
  std::string open_;
  int64_t index_ = 0;
};

}  // namespace

void messages(Context& context, const HttpRequest& http, Reply& reply) {
  const Json body = parse_body(http.body);
  const Fields fields(body);
  const Models::Lease lease = context.models.find(fields.text("model").value_or(""));
  ServedModel& model = *lease;
  Scheduler& scheduler = require_scheduler(model);
  if (!fields.integer("max_tokens", 0, INT64_MAX / 2)) fields.fail("max_tokens", "a number");
  const ChatPrompt asked = read_prompt(fields, model.model());
  RenderedChat chat = render_chat(model.model(), asked);
  check_context(chat.ids.size(), scheduler);
  GenerateRequest request{std::move(chat.ids), read_options(fields, model.model())};
  for_chat(request.options, model.model());
  hold_to_calls(read_choice(fields), asked.tools, model, chat.parser, request);
  request.options.stops = fields.texts("stop_sequences");
  const size_t prompt = request.prompt.size();
  Answers answers(scheduler, request, 1, reply);
  if (fields.flag("stream").value_or(false))
    return MessageStream(reply).run(model, prompt, answers, chat.parser);
  while (const auto event = answers.next()) chat.parser.push(event->piece.text);
  chat.parser.finish();
  const Generation& result = answers.result(0);
  const ParsedAnswer& answer = chat.parser.answer();
  reply.send(200, kJson,
             dump_json(message_of(model, blocks_of(answer), stop_reason(result, answer),
                                  usage_of(result))));
}

void count_tokens(Context& context, const HttpRequest& http, Reply& reply) {
  const Json body = parse_body(http.body);
  const Fields fields(body);
  const Models::Lease lease = context.models.find(fields.text("model").value_or(""));
  ServedModel& model = *lease;
  const RenderedChat chat = render_chat(model.model(), read_prompt(fields, model.model()));
  reply.send(200, kJson, dump_json({{"input_tokens", chat.ids.size()}}));
}

}  // namespace veery::serve
