// openai.h: parts of replies that OpenAI's API and others that follow it share.
#pragma once
#include "base/json.h"
#include "serve/api/reply_writer.h"
#include "text/tokenizer.h"

namespace veery::serve {

/// Returns {"token": ..., "logprob": ..., "bytes": [...]}.
Json chance_json(const TokenChance& chance, const Tokenizer& tokenizer);

/// The same with "top_logprobs", the most probable tokens at the position.
Json score_json(const ScoredToken& score, const Tokenizer& tokenizer);

/// Returns the scores of all pieces as a list of score_json().
Json scores_json(std::span<const AnswerPiece> pieces, const Tokenizer& tokenizer);

/// Returns finish_reason: "stop", "length" or "tool_calls".
const char* finish_reason(const Answer& answer);

/// Returns vLLM's stop_reason: the stop string or the stop token id that ended the answer, or null.
Json stop_reason(const Generation& result);

/// Returns the object "usage". Only that of parsed answers has completion_tokens_details.
Json usage_json(const AnswerUsage& usage);

}  // namespace veery::serve
