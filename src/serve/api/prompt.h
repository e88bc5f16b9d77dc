// prompt.h: what an API asks for, in the form that all of them share.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "base/json.h"
#include "schedule/ticket.h"
#include "serve/api/fields.h"
#include "serve/models/models.h"
#include "text/answer/answer_parser.h"

namespace veery::serve {

/// A conversation that is to go on.
struct ChatPrompt {
  Json messages;                    ///< as templates take them
  Json tools;                       ///< or null
  Json variables = Json::object();  ///< of the template, beside the usual ones
};

/// The prompt of a chat, and how its answer is to be read.
struct RenderedChat {
  std::vector<int32_t> ids;
  AnswerParser parser;
};

/// Messages as OpenAI's clients write them: roles checked, texts of several parts joined, arguments
/// of calls as objects. Throws ApiError naming the message and what of it cannot be used.
Json normal_messages(const Json& messages, const Model& model);

/// Throws ApiError: the model has no template, or the template refuses.
RenderedChat render_chat(const Model& model, const ChatPrompt& chat);

/// Sampling and length, as most APIs call the fields; what is absent is as the model's makers want
/// it. `prompt_tokens`: what of the context is taken.
GenerateOptions read_options(const Fields& fields, const Model& model);

/// The options for the answer to a rendered chat.
void for_chat(GenerateOptions& options, const Model& model);

/// What holds the answer to a form: OpenAI's response_format, or the schema or "json" of Ollama's
/// format; absent or "text": nothing. Throws ApiError naming a keyword that cannot be kept.
void read_format(const Json* format, ServedModel& model, const AnswerParser& parser,
                 GenerateRequest& request);
/// Of a schema.
void hold_to_schema(const Json& schema, ServedModel& model, const AnswerParser& parser,
                    GenerateRequest& request);

/// Refuses prompts that leave no room for an answer (context_length_exceeded).
void check_context(size_t prompt, const Scheduler& scheduler);

/// Throws ApiError 400 where the model makes no answers.
Scheduler& require_scheduler(ServedModel& model);

/// "chatcmpl-" and 24 random characters.
std::string random_id(const std::string& prefix);

}  // namespace veery::serve
