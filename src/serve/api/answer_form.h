// answer_form.h: constrained decoding, requested by the fields of several APIs.
#pragma once
#include "schedule/ticket.h"
#include "serve/api/fields.h"
#include "serve/models/models.h"
#include "text/answer/answer_parser.h"

namespace veery::serve {

/// Constrains the answer to the format that a request gives: OpenAI's response_format, vLLM's
/// structured_outputs, guided_json, guided_regex, guided_choice and guided_grammar, llama.cpp's
/// grammar and json_schema. Throws ApiError 400 naming the field if the format is not supported or
/// two of them are given.
void read_answer_form(const Fields& fields, ServedModel& model, const AnswerParser& parser,
                      GenerateRequest& request);

}  // namespace veery::serve
