// token_fields.h: fields of vLLM and llama.cpp that restrict the tokens of an answer.
#pragma once
#include <cstdint>
#include <vector>

#include "engine/answer_text.h"
#include "engine/model.h"
#include "serve/api/fields.h"

namespace veery::serve {

/// Reads stop_token_ids, min_tokens, allowed_token_ids, bad_words, skip_special_tokens,
/// include_stop_str_in_output and logit_bias. The latter is an object by token ids or texts, or a
/// list of pairs; a value is a number, or false for a token that must not occur. Throws ApiError
/// 400 naming the field.
void read_token_fields(const Fields& fields, const Model& model, GenerateOptions& options);

/// Keeps the last truncate_prompt_tokens ids of a prompt; -1 keeps all that leave room for an
/// answer in `context`. Does nothing if the field is absent.
void truncate_prompt(const Fields& fields, int32_t context, std::vector<int32_t>& ids);

}  // namespace veery::serve
