#include "serve/responses/response_writer.h"

#include <ctime>
#include <utility>

#include "serve/api/openai.h"
#include "serve/api/prompt.h"
#include "serve/responses/response_input.h"

namespace veery::serve {

ResponseWriter::ResponseWriter(Json body, const ResponseTools& tools, const Tokenizer& tokenizer,
                               ResponseOptions options, Complete complete)
    : body_(std::move(body)),
      tools_(tools),
      tokenizer_(tokenizer),
      options_(options),
      complete_(std::move(complete)) {}

Json ResponseWriter::whole(AnswerList answers, const AnswerUsage& usage) {
  const Answer& answer = answers.front();
  for (const AnswerPiece& piece : answer.pieces) show(answer, piece);
  complete(answer.result(), usage);
  return body_;
}

void ResponseWriter::begin(AnswerList, EventStream& stream) {
  stream_ = &stream;
  send("response.created", {{"response", body_}});
  send("response.in_progress", {{"response", body_}});
}

void ResponseWriter::add(const Answer& answer, const AnswerPiece& piece, EventStream&) {
  show(answer, piece);
}

void ResponseWriter::finish(AnswerList answers, const AnswerUsage& usage, EventStream&) {
  const bool cut = !complete(answers.front().result(), usage);
  send(cut ? "response.incomplete" : "response.completed", {{"response", body_}});
}

void ResponseWriter::send(const char* type, Json members) {
  if (stream_ == nullptr) return;
  Json event = {{"type", type}, {"sequence_number", number_++}};
  event.update(members);
  stream_->event(type, event);
}

Json ResponseWriter::of_item(Json members) const {
  Json json = {{"item_id", item_["id"]}, {"output_index", body_["output"].size()}};
  json.update(members);
  return json;
}

Json ResponseWriter::text_part(const std::string& text, Json scores) const {
  return {{"type", "output_text"},
          {"text", text},
          {"annotations", Json::array()},
          {"logprobs", std::move(scores)}};
}

void ResponseWriter::begin_item(Kind kind, Json item) {
  close();
  kind_ = kind;
  item_ = std::move(item);
  send("response.output_item.added", {{"output_index", body_["output"].size()}, {"item", item_}});
}

void ResponseWriter::show(const Answer& answer, const AnswerPiece& piece) {
  if (options_.logprobs)
    for (const ScoredToken& score : piece.scores)
      fresh_scores_.push_back(score_json(score, tokenizer_));
  for (const AnswerDelta& delta : piece.deltas) show(delta, answer);
}

void ResponseWriter::show(const AnswerDelta& delta, const Answer& answer) {
  switch (delta.kind) {
    case AnswerDelta::Kind::kContent: return add_text(delta.text);
    case AnswerDelta::Kind::kReasoning: return add_reasoning(delta.text);
    case AnswerDelta::Kind::kCall: return begin_call(delta, answer);
    case AnswerDelta::Kind::kArguments: return add_arguments(delta.text);
    case AnswerDelta::Kind::kCallEnd:
      return close(answer.call(delta.call).complete ? "completed" : "incomplete");
  }
}

void ResponseWriter::add_text(const std::string& text) {
  if (kind_ != Kind::kText) {
    begin_item(Kind::kText, {{"type", "message"},
                             {"id", random_id("msg_")},
                             {"status", "in_progress"},
                             {"role", "assistant"},
                             {"content", Json::array()}});
    send("response.content_part.added",
         of_item({{"content_index", 0}, {"part", text_part("", Json::array())}}));
  }
  text_ += text;
  Json scores = std::exchange(fresh_scores_, Json::array());
  for (const Json& score : scores) scores_.push_back(score);
  send("response.output_text.delta",
       of_item({{"content_index", 0}, {"delta", text}, {"logprobs", std::move(scores)}}));
}

void ResponseWriter::add_reasoning(const std::string& text) {
  if (kind_ != Kind::kReasoning)
    begin_item(Kind::kReasoning, {{"type", "reasoning"},
                                  {"id", random_id("rs_")},
                                  {"summary", Json::array()},
                                  {"content", Json::array()},
                                  {"encrypted_content", nullptr},
                                  {"status", "in_progress"}});
  text_ += text;
  fresh_scores_ = Json::array();
  send("response.reasoning_text.delta", of_item({{"content_index", 0}, {"delta", text}}));
}

void ResponseWriter::begin_call(const AnswerDelta& delta, const Answer& answer) {
  const ResponseTools::Tool tool = tools_.find(delta.text);
  const std::string& id = answer.call(delta.call).id;
  Json item = {{"type", tool.custom ? "custom_tool_call" : "function_call"},
               {"id", random_id(tool.custom ? "ctc_" : "fc_")},
               {"call_id", id.empty() ? random_id("call_") : id},
               {"name", tool.name},
               {tool.custom ? "input" : "arguments", ""},
               {"status", "in_progress"}};
  if (!tool.space.empty()) item["namespace"] = tool.space;
  input_ = CustomInput();
  begin_item(tool.custom ? Kind::kCustom : Kind::kCall, std::move(item));
}

void ResponseWriter::add_arguments(const std::string& text) {
  if (kind_ == Kind::kCustom) return add_input(input_.push(text));
  item_["arguments"] = item_["arguments"].string() + text;
  send("response.function_call_arguments.delta", of_item({{"delta", text}}));
}

void ResponseWriter::add_input(const std::string& text) {
  if (text.empty()) return;
  item_["input"] = item_["input"].string() + text;
  send("response.custom_tool_call_input.delta", of_item({{"delta", text}}));
}

void ResponseWriter::close_text() {
  send("response.output_text.done",
       of_item({{"content_index", 0}, {"text", text_}, {"logprobs", scores_}}));
  Json part = text_part(text_, std::exchange(scores_, Json::array()));
  send("response.content_part.done", of_item({{"content_index", 0}, {"part", part}}));
  item_["content"].push_back(std::move(part));
}

void ResponseWriter::close(const char* status) {
  switch (kind_) {
    case Kind::kNone: return;
    case Kind::kText: close_text(); break;
    case Kind::kReasoning:
      send("response.reasoning_text.done", of_item({{"content_index", 0}, {"text", text_}}));
      item_["content"].push_back({{"type", "reasoning_text"}, {"text", text_}});
      if (options_.sealed_reasoning) item_["encrypted_content"] = sealed_reasoning(text_);
      break;
    case Kind::kCall:
      send("response.function_call_arguments.done",
           of_item({{"arguments", item_["arguments"]}, {"name", item_["name"]}}));
      break;
    case Kind::kCustom:
      add_input(input_.finish());
      send("response.custom_tool_call_input.done", of_item({{"input", item_["input"]}}));
      break;
  }
  item_["status"] = status;
  send("response.output_item.done", {{"output_index", body_["output"].size()}, {"item", item_}});
  body_["output"].push_back(std::move(item_));
  text_.clear();
  kind_ = Kind::kNone;
}

// Ends the last item and the response. Returns false if the answer is cut off.
bool ResponseWriter::complete(const Generation& result, const AnswerUsage& usage) {
  const bool cut = result.finish == FinishReason::kLength;
  close(cut ? "incomplete" : "completed");
  body_["status"] = cut ? "incomplete" : "completed";
  if (cut)
    body_["incomplete_details"] = {{"reason", "max_output_tokens"}};
  else
    body_["completed_at"] = std::time(nullptr);
  body_["usage"] = {
      {"input_tokens", usage.prompt},
      {"input_tokens_details", {{"cached_tokens", usage.cached}}},
      {"output_tokens", usage.generated},
      {"output_tokens_details", {{"reasoning_tokens", usage.reasoning().value_or(0)}}},
      {"total_tokens", usage.prompt + usage.generated}};
  if (complete_) complete_(body_);
  return !cut;
}

}  // namespace veery::serve
