// prompt.h: parts of requests that all APIs share: messages, tools, options, formats.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "base/json.h"
#include "chat/conversation.h"
#include "schedule/ticket.h"
#include "serve/api/api_error.h"
#include "serve/api/fields.h"
#include "serve/models/models.h"
#include "serve/observe/request_record.h"
#include "text/answer/answer_parser.h"

namespace veery::serve {

/// A conversation and its rendered prompt.
using ChatPrompt = Conversation;
using RenderedChat = RenderedConversation;

/// Calls normal_messages(). Throws ApiError instead of its errors.
Json request_messages(const Json& messages);

/// Returns the field "tools", functions in the format of OpenAI; null if there are none. Throws
/// ApiError for a tool without a name.
Json read_tools(const Fields& fields);

/// Renders a conversation. Throws ApiError if the model has no template or the template refuses the
/// messages.
RenderedChat render_chat(const Model& model, const ChatPrompt& chat);

/// Renders a prompt for an answer. Throws context_length_error() if the prompt leaves no room for
/// an answer; a text that is certainly too long is neither rendered nor encoded. `field`: the field
/// of the request that has the messages.
RenderedChat render_for_answer(ServedModel& model, const ChatPrompt& chat, const char* field,
                               Family family = Family::kOpenAi);

/// Reads sampling options and the length, by the names that most APIs use. Defaults are those that
/// the model's file recommends.
GenerateOptions read_options(const Fields& fields, const Model& model);

/// Reads the fields that change how a template is rendered: chat_template, chat_template_kwargs,
/// documents, add_generation_prompt, continue_final_message, parse_special.
void read_template_fields(const Fields& fields, const Model& model, ChatPrompt& prompt);

/// Sets the options for the answer to a rendered chat.
void for_chat(GenerateOptions& options, const RenderedChat& chat);

/// Returns an id for a tool call to which the model gave none: `prefix` and 24 random characters,
/// or nine random characters if the model's template accepts only those (Mistral).
std::string new_call_id(const Model& model, const std::string& prefix = "call_");

/// Limits the tokens of reasoning by the request (thinking_budget_tokens of llama.cpp,
/// thinking_token_budget of vLLM), else to `otherwise` tokens. Negative or absent: no limit.
void limit_reasoning(const Fields& fields, const AnswerParser& parser, GenerateRequest& request,
                     std::optional<int64_t> otherwise = {});

/// Constrains the answer to OpenAI's response_format. Does nothing if `format` is null or of type
/// "text". Throws ApiError naming a keyword of a schema that is not supported. `where`: the name of
/// the field.
void read_format(const Json* format, ServedModel& model, const AnswerParser& parser,
                 GenerateRequest& request, const std::string& where = "response_format");
/// Constrains the answer to a JSON schema. Throws as read_format() does.
void constrain_to_schema(const Json& schema, ServedModel& model, const AnswerParser& parser,
                         GenerateRequest& request);

/// Throws context_length_error() if a prompt of this many tokens leaves no room for an answer.
/// `field`: the field of the prompt.
void check_context(size_t prompt, const Scheduler& scheduler, const char* field,
                   Family family = Family::kOpenAi);
/// The same for a prompt that is not encoded yet: throws if the length of all strings in `json`
/// alone proves that they do not fit.
void check_texts(const Json& json, ServedModel& model, const char* field,
                 Family family = Family::kOpenAi);

/// Returns the scheduler of the model. Throws ApiError 400 if the model generates no text.
Scheduler& require_scheduler(ServedModel& model);

}  // namespace veery::serve
