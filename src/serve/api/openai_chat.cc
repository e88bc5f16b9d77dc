// POST /v1/chat/completions
#include <fmt/format.h>

#include <ctime>

#include "base/utf8.h"
#include "chat/reasoning.h"
#include "serve/api/answer_form.h"
#include "serve/api/answers.h"
#include "serve/api/api_error.h"
#include "serve/api/context.h"
#include "serve/api/openai.h"
#include "serve/api/prompt.h"
#include "serve/api/token_fields.h"
#include "serve/api/tool_choice.h"
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
  if (const Json* options = fields.object("stream_options"))
    request.usage = Fields(*options, "stream_options.").flag("include_usage").value_or(false);
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

/// One of the answers, parsed into content, reasoning and calls.
struct Choice {
  AnswerParser parser;
  CallLimit limit;
  Json scores = Json::array();
};

Json scores_json(const std::vector<ScoredToken>& scores, const Tokenizer& tokenizer) {
  Json list = Json::array();
  for (const ScoredToken& score : scores) list.push_back(score_json(score, tokenizer));
  return list;
}

const char* finish_word(const Generation& result, const Choice& choice) {
  if (result.finish == FinishReason::kLength) return "length";
  return choice.parser.answer().calls.empty() ? "stop" : "tool_calls";
}

Json message_of(const Choice& choice, const Model& model) {
  const ParsedAnswer answer = choice.limit.limited(choice.parser.answer());
  Json message = {{"role", "assistant"}, {"content", answer.content}, {"refusal", nullptr}};
  if (!answer.reasoning.empty()) message["reasoning_content"] = answer.reasoning;
  if (answer.calls.empty()) return message;
  if (answer.content.empty()) message["content"] = nullptr;
  message["tool_calls"] = Json::array();
  for (const ToolCall& call : answer.calls)
    message["tool_calls"].push_back(
        {{"id", call.id.empty() ? new_call_id(model) : call.id},
         {"type", "function"},
         {"function", {{"name", call.name}, {"arguments", call.arguments}}}});
  return message;
}

void answer_whole(const ChatRequest& request, Answers& answers, std::vector<Choice>& choices,
                  Reply& reply) {
  const Tokenizer& tokenizer = request.model->model().tokenizer();
  while (const auto event = answers.next()) {
    if (event->index < 0) continue;
    Choice& choice = choices[static_cast<size_t>(event->index)];
    std::vector<AnswerDelta> deltas = choice.parser.push(event->piece.text);
    if (choice.limit.apply(deltas)) answers.cancel(event->index);
    for (const ScoredToken& score : event->piece.scores)
      choice.scores.push_back(score_json(score, tokenizer));
    if (event->over) choice.parser.finish();
  }
  Json body = frame_of(request, "chat.completion");
  body["choices"] = Json::array();
  for (int32_t i = 0; i < answers.count(); ++i) {
    Choice& choice = choices[static_cast<size_t>(i)];
    body["choices"].push_back(
        {{"index", i},
         {"message", message_of(choice, request.model->model())},
         {"logprobs", request.generate.logprobs >= 0
                          ? Json{{"content", choice.scores}, {"refusal", nullptr}}
                          : Json()},
         {"finish_reason", finish_word(answers.result(i), choice)},
         {"stop_reason", stop_reason(answers.result(i))}});
  }
  body["usage"] = usage_json(answers, choices[0].parser.answer().reasoning, tokenizer);
  reply.send(200, kJson, dump_json(body));
}

// Returns the "delta" of a chunk; absent: the delta is not sent.
std::optional<Json> delta_json(const AnswerDelta& delta, Choice& choice, const Model& model) {
  const auto index = static_cast<int64_t>(delta.call);
  switch (delta.kind) {
    case AnswerDelta::Kind::kContent: return Json{{"content", delta.text}};
    case AnswerDelta::Kind::kReasoning: return Json{{"reasoning_content", delta.text}};
    case AnswerDelta::Kind::kCall: {
      const ToolCall& call = choice.parser.answer().calls[delta.call];
      return Json{
          {"tool_calls", Json::array({{{"index", index},
                                       {"id", call.id.empty() ? new_call_id(model) : call.id},
                                       {"type", "function"},
                                       {"function", {{"name", delta.text}, {"arguments", ""}}}}})}};
    }
    case AnswerDelta::Kind::kArguments:
      return Json{{"tool_calls",
                   Json::array({{{"index", index}, {"function", {{"arguments", delta.text}}}}})}};
    case AnswerDelta::Kind::kCallEnd: break;
  }
  return std::nullopt;
}

class ChatStream {
 public:
  ChatStream(const ChatRequest& request, Reply& reply)
      : request_(request), events_(reply), frame_(frame_of(request, "chat.completion.chunk")) {
    if (request.usage) frame_["usage"] = nullptr;
  }

  bool chunk(int32_t index, Json delta, Json scores, Json finish) {
    Json body = frame_;
    body["choices"] = Json::array({{{"index", index},
                                    {"delta", std::move(delta)},
                                    {"logprobs", std::move(scores)},
                                    {"finish_reason", std::move(finish)}}});
    return events_.data(body);
  }

  bool show(const Answers::Event& event, Choice& choice, Answers& answers) {
    const Generation* result = event.over ? &answers.result(event.index) : nullptr;
    const Tokenizer& tokenizer = request_.model->model().tokenizer();
    Json scores;
    if (request_.generate.logprobs >= 0 && !event.piece.scores.empty())
      scores = {{"content", scores_json(event.piece.scores, tokenizer)}, {"refusal", nullptr}};
    std::vector<AnswerDelta> deltas = choice.parser.push(event.piece.text);
    if (result != nullptr)
      for (AnswerDelta& delta : choice.parser.finish()) deltas.push_back(std::move(delta));
    if (choice.limit.apply(deltas)) answers.cancel(event.index);
    for (const AnswerDelta& delta : deltas)
      if (std::optional<Json> json = delta_json(delta, choice, request_.model->model()))
        if (!chunk(event.index, std::move(*json), std::exchange(scores, {}), {})) return false;
    if (!scores.is_null() && !chunk(event.index, Json::object(), std::move(scores), {}))
      return false;
    return result == nullptr ||
           chunk(event.index, Json::object(), {}, finish_word(*result, choice));
  }

  void run(Answers& answers, std::vector<Choice>& choices) {
    for (int32_t i = 0; i < answers.count(); ++i)
      chunk(i, {{"role", "assistant"}, {"content", ""}}, {}, {});
    while (const auto event = answers.next()) {
      const bool goes_on = event->index < 0
                               ? events_.ping()
                               : show(*event, choices[static_cast<size_t>(event->index)], answers);
      if (!goes_on) return;
    }
    if (request_.usage) {
      Json body = frame_;
      body["choices"] = Json::array();
      body["usage"] = usage_json(answers, choices[0].parser.answer().reasoning,
                                 request_.model->model().tokenizer());
      events_.data(body);
    }
    events_.done();
  }

 private:
  const ChatRequest& request_;
  EventStream events_;
  Json frame_;
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
  Answers answers(*request.model, request.generate, request.count, reply);
  std::vector<Choice> choices(static_cast<size_t>(request.count),
                              Choice{chat.parser, CallLimit(request.choice)});
  if (!request.stream) return answer_whole(request, answers, choices, reply);
  ChatStream(request, reply).run(answers, choices);
}

}  // namespace veery::serve
