// prompt.h: what an API asks for, in the form that all of them share.
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

/// A conversation that is to go on, and its prompt.
using ChatPrompt = Conversation;
using RenderedChat = RenderedConversation;

/// normal_messages() of a request. Throws ApiError in place of its errors.
Json request_messages(const Json& messages);

/// The field "tools", functions in OpenAI's form; null if there are none. Throws ApiError naming
/// one without a name.
Json read_tools(const Fields& fields);

/// Throws ApiError if the model has no template, or the template refuses the messages.
RenderedChat render_chat(const Model& model, const ChatPrompt& chat);

/// The same for an answer. Throws context_length_error() if the prompt leaves no room for one; a
/// text that is certain to be too long is neither rendered nor encoded. `field`: of the request,
/// holds the messages.
RenderedChat render_for_answer(ServedModel& model, const ChatPrompt& chat, const char* field,
                               Family family = Family::kOpenAi);

/// Sampling and length, as most APIs call the fields; what is absent is as the model's makers want
/// it. `prompt_tokens`: what of the context is taken.
GenerateOptions read_options(const Fields& fields, const Model& model);

/// The fields by which clients change how a template is rendered: chat_template,
/// chat_template_kwargs, documents, add_generation_prompt, continue_final_message, parse_special.
void read_template_fields(const Fields& fields, const Model& model, ChatPrompt& prompt);

/// The options for the answer to a rendered chat.
void for_chat(GenerateOptions& options, const RenderedChat& chat);

/// An id for a call that the model gave none: `prefix` and 24 random characters, or nine of them
/// where the model's template takes no others (Mistral).
std::string new_call_id(const Model& model, const std::string& prefix = "call_");

/// Limits the tokens of reasoning as the request says (thinking_budget_tokens of llama.cpp,
/// thinking_token_budget of vLLM), else to `otherwise` tokens; less than 0 or absent: no limit.
void limit_reasoning(const Fields& fields, const AnswerParser& parser, GenerateRequest& request,
                     std::optional<int64_t> otherwise = {});

/// What holds the answer to a form: OpenAI's response_format, or the schema or "json" of Ollama's
/// format; absent or "text": nothing. Throws ApiError naming a keyword that cannot be kept.
/// `where`: the name of the field.
void read_format(const Json* format, ServedModel& model, const AnswerParser& parser,
                 GenerateRequest& request, const std::string& where = "response_format");
/// Of a schema.
void hold_to_schema(const Json& schema, ServedModel& model, const AnswerParser& parser,
                    GenerateRequest& request);

/// Throws context_length_error() if a prompt of this many tokens leaves no room for an answer.
/// `field`: holds the prompt.
void check_context(size_t prompt, const Scheduler& scheduler, const char* field,
                   Family family = Family::kOpenAi);
/// The same of texts (a string, or strings anywhere in `json`) that are not encoded yet, if their
/// length alone tells.
void check_texts(const Json& json, ServedModel& model, const char* field,
                 Family family = Family::kOpenAi);

/// Throws ApiError 400 where the model makes no answers.
Scheduler& require_scheduler(ServedModel& model);

}  // namespace veery::serve
