// POST /v1/responses
#include <fmt/format.h>

#include <ctime>

#include "serve/api/answers.h"
#include "serve/api/api_error.h"
#include "serve/api/context.h"
#include "serve/api/openai.h"
#include "serve/api/prompt.h"
#include "serve/api/tool_choice.h"

namespace veery::serve {
namespace {

// Items of the input as messages.
Json read_items(const Fields& fields) {
  Json messages = Json::array();
  if (const auto instructions = fields.text("instructions"))
    messages.push_back({{"role", "system"}, {"content", *instructions}});
  const Json* input = fields.find("input");
  if (input == nullptr || !(input->is_string() || input->is_array()))
    fields.fail("input", "a text or a list of items");
  if (input->is_string()) {
    messages.push_back({{"role", "user"}, {"content", *input}});
    return messages;
  }
  for (size_t i = 0; i < input->size(); ++i) {
    const Fields item((*input)[i], fmt::format("input[{}].", i));
    const std::string type = item.text("type").value_or("message");
    if (type == "message") {
      const Json* content = item.find("content");
      if (content == nullptr) item.fail("content", "a text or a list of parts");
      messages.push_back({{"role", item.require_text("role")}, {"content", *content}});
    } else if (type == "function_call") {
      messages.push_back(
          {{"role", "assistant"},
           {"content", ""},
           {"tool_calls", Json::array({{{"id", item.require_text("call_id")},
                                        {"type", "function"},
                                        {"function",
                                         {{"name", item.require_text("name")},
                                          {"arguments", item.require_text("arguments")}}}}})}});
    } else if (type == "function_call_output") {
      messages.push_back({{"role", "tool"},
                          {"tool_call_id", item.require_text("call_id")},
                          {"content", item.require_text("output")}});
    } else if (type != "reasoning") {
      item.fail("type", "message, function_call, function_call_output or reasoning");
    }
  }
  return messages;
}

// Functions as templates take them; tools of other types are left out.
Json read_tools(const Fields& fields) {
  const Json* tools = fields.array("tools");
  if (tools == nullptr) return {};
  Json result;
  for (size_t i = 0; i < tools->size(); ++i) {
    const Fields tool((*tools)[i], fmt::format("tools[{}].", i));
    if (tool.text("type").value_or("function") != "function") continue;
    const Json* parameters = tool.object("parameters");
    result.push_back({{"type", "function"},
                      {"function",
                       {{"name", tool.require_text("name")},
                        {"description", tool.text("description").value_or("")},
                        {"parameters", parameters != nullptr ? *parameters : Json::object()}}}});
  }
  return result;
}

void refuse_stored(const Fields& fields) {
  if (fields.has("previous_response_id"))
    throw ApiError(400, "previous_response_id: responses are not stored here, send the whole input",
                   "previous_response_id");
}

Json text_part(const std::string& text) {
  return {{"type", "output_text"}, {"text", text}, {"annotations", Json::array()}};
}

/// The answer as items, which grow as it comes; tells of each step, where somebody listens.
class ResponseWriter {
 public:
  ResponseWriter(const ServedModel& model, EventStream* events) : events_(events) {
    body_ = {{"id", random_id("resp_")},
             {"object", "response"},
             {"created_at", std::time(nullptr)},
             {"status", "in_progress"},
             {"error", nullptr},
             {"incomplete_details", nullptr},
             {"instructions", nullptr},
             {"metadata", Json::object()},
             {"model", model.id()},
             {"output", Json::array()},
             {"parallel_tool_calls", true},
             {"temperature", nullptr},
             {"tool_choice", "auto"},
             {"tools", Json::array()},
             {"top_p", nullptr},
             {"usage", nullptr}};
    tell("response.created", {{"response", body_}});
    tell("response.in_progress", {{"response", body_}});
  }

  void show(const AnswerDelta& delta, const AnswerParser& parser) {
    switch (delta.kind) {
      case AnswerDelta::Kind::kContent: return add_text(delta.text);
      case AnswerDelta::Kind::kReasoning: return add_reasoning(delta.text);
      case AnswerDelta::Kind::kCall: {
        const std::string& id = parser.answer().calls[delta.call].id;
        return begin("call", {{"type", "function_call"},
                              {"id", random_id("fc_")},
                              {"call_id", id.empty() ? random_id("call_") : id},
                              {"name", delta.text},
                              {"arguments", ""},
                              {"status", "in_progress"}});
      }
      case AnswerDelta::Kind::kArguments:
        item_["arguments"] = item_["arguments"].string() + delta.text;
        return tell("response.function_call_arguments.delta", of_item({{"delta", delta.text}}));
      case AnswerDelta::Kind::kCallEnd: return close();
    }
  }

  Json finish(const Generation& result, int64_t thought) {
    close();
    const bool cut = result.finish == FinishReason::kLength;
    const auto prompt = static_cast<int64_t>(result.prompt_tokens + result.reused_tokens);
    body_["status"] = cut ? "incomplete" : "completed";
    if (cut) body_["incomplete_details"] = {{"reason", "max_output_tokens"}};
    body_["usage"] = {{"input_tokens", prompt},
                      {"input_tokens_details", {{"cached_tokens", result.reused_tokens}}},
                      {"output_tokens", result.ids.size()},
                      {"output_tokens_details", {{"reasoning_tokens", thought}}},
                      {"total_tokens", prompt + std::ssize(result.ids)}};
    tell(cut ? "response.incomplete" : "response.completed", {{"response", body_}});
    return body_;
  }
  bool alive() const { return alive_; }
  const std::string& reasoning() const { return reasoning_; }

 private:
  void tell(const char* type, Json members) {
    if (events_ == nullptr) return;
    Json event = {{"type", type}, {"sequence_number", number_++}};
    event.update(members);
    alive_ = events_->event(type, event) && alive_;
  }
  Json of_item(Json members) const {
    Json json = {{"item_id", item_["id"]}, {"output_index", body_["output"].size()}};
    json.update(members);
    return json;
  }
  void begin(const std::string& kind, Json item) {
    close();
    kind_ = kind;
    item_ = std::move(item);
    tell("response.output_item.added", {{"output_index", body_["output"].size()}, {"item", item_}});
  }
  void add_text(const std::string& text) {
    if (kind_ != "text") {
      begin("text", {{"type", "message"},
                     {"id", random_id("msg_")},
                     {"status", "in_progress"},
                     {"role", "assistant"},
                     {"content", Json::array()}});
      tell("response.content_part.added", of_item({{"content_index", 0}, {"part", text_part("")}}));
    }
    text_ += text;
    tell("response.output_text.delta",
         of_item({{"content_index", 0}, {"delta", text}, {"logprobs", Json::array()}}));
  }
  void add_reasoning(const std::string& text) {
    if (kind_ != "reasoning")
      begin("reasoning", {{"type", "reasoning"},
                          {"id", random_id("rs_")},
                          {"summary", Json::array()},
                          {"content", Json::array()}});
    text_ += text;
    reasoning_ += text;
    tell("response.reasoning_text.delta", of_item({{"content_index", 0}, {"delta", text}}));
  }
  void close() {
    if (kind_.empty()) return;
    if (kind_ == "text") {
      tell("response.output_text.done",
           of_item({{"content_index", 0}, {"text", text_}, {"logprobs", Json::array()}}));
      tell("response.content_part.done",
           of_item({{"content_index", 0}, {"part", text_part(text_)}}));
      item_["content"].push_back(text_part(text_));
    } else if (kind_ == "reasoning") {
      tell("response.reasoning_text.done", of_item({{"content_index", 0}, {"text", text_}}));
      item_["content"].push_back({{"type", "reasoning_text"}, {"text", text_}});
    } else {
      tell("response.function_call_arguments.done",
           of_item({{"arguments", item_["arguments"]}, {"name", item_["name"]}}));
    }
    if (kind_ != "reasoning") item_["status"] = "completed";
    tell("response.output_item.done", {{"output_index", body_["output"].size()}, {"item", item_}});
    body_["output"].push_back(std::move(item_));
    text_.clear();
    kind_.clear();
  }

  EventStream* events_;
  Json body_, item_;
  std::string kind_, text_, reasoning_;
  int64_t number_ = 0;
  bool alive_ = true;
};

}  // namespace

void responses(Context& context, const HttpRequest& http, Reply& reply) {
  const Json body = parse_body(http.body);
  const Fields fields(body);
  const Models::Lease lease = context.models.find(fields.text("model").value_or(""));
  ServedModel& model = *lease;
  Scheduler& scheduler = require_scheduler(model);
  refuse_stored(fields);
  const ToolChoice choice = read_tool_choice(fields);
  ChatPrompt prompt{normal_messages(read_items(fields), model.model()),
                    choice.none ? Json() : read_tools(fields), Json::object()};
  if (const Json* reasoning = fields.object("reasoning"))
    if (const auto effort = Fields(*reasoning, "reasoning.").text("effort")) {
      prompt.variables["reasoning_effort"] = *effort;
      if (*effort == "none") prompt.variables["enable_thinking"] = false;
    }
  RenderedChat chat = render_chat(model.model(), prompt);
  check_context(chat.ids.size(), scheduler);
  GenerateRequest request{std::move(chat.ids), read_options(fields, model.model())};
  for_chat(request.options, model.model());
  if (const Json* text = fields.object("text"))
    read_format(Fields(*text, "text.").object("format"), model, chat.parser, request);
  hold_to_calls(choice, prompt.tools, model, chat.parser, request);
  Answers answers(scheduler, request, 1, reply);
  EventStream events(reply);
  const bool stream = fields.flag("stream").value_or(false);
  ResponseWriter writer(model, stream ? &events : nullptr);
  while (const auto event = answers.next()) {
    if (event->index < 0) {
      if (stream && !events.ping()) return;
      continue;
    }
    for (const AnswerDelta& delta : chat.parser.push(event->piece.text))
      writer.show(delta, chat.parser);
    if (event->over)
      for (const AnswerDelta& delta : chat.parser.finish()) writer.show(delta, chat.parser);
    if (!writer.alive()) return;
  }
  const Json usage = usage_json(answers, writer.reasoning(), model.model().tokenizer());
  const Json whole = writer.finish(
      answers.result(0), usage["completion_tokens_details"]["reasoning_tokens"].get<int64_t>());
  if (stream) return events.end();
  reply.send(200, kJson, dump_json(whole));
}

}  // namespace veery::serve
