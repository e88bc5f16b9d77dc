#include "serve/api/openai.h"

#include <algorithm>

#include "base/utf8.h"

namespace veery::serve {

Json chance_json(const TokenChance& chance, const Tokenizer& tokenizer) {
  const std::string piece = tokenizer.piece(chance.id, true);
  Json bytes = Json::array();
  for (const char byte : piece) bytes.push_back(static_cast<int64_t>(static_cast<uint8_t>(byte)));
  // JSON has no minus infinity.
  const double logprob = std::max(static_cast<double>(chance.logprob), -9999.0);
  return {{"token", valid_utf8(piece)}, {"logprob", logprob}, {"bytes", bytes}};
}

Json score_json(const ScoredToken& score, const Tokenizer& tokenizer) {
  Json json = chance_json(score.token, tokenizer);
  json["top_logprobs"] = Json::array();
  for (const TokenChance& top : score.top)
    json["top_logprobs"].push_back(chance_json(top, tokenizer));
  return json;
}

Json scores_json(std::span<const AnswerPiece> pieces, const Tokenizer& tokenizer) {
  Json list = Json::array();
  for (const AnswerPiece& piece : pieces)
    for (const ScoredToken& score : piece.scores) list.push_back(score_json(score, tokenizer));
  return list;
}

const char* finish_reason(const Answer& answer) {
  if (answer.result().finish == FinishReason::kLength) return "length";
  return answer.calls() ? "tool_calls" : "stop";
}

Json stop_reason(const Generation& result) {
  if (!result.stop.empty()) return result.stop;
  return result.stop_id >= 0 ? Json(result.stop_id) : Json();
}

Json usage_json(const AnswerUsage& usage) {
  Json json = {{"prompt_tokens", usage.prompt},
               {"completion_tokens", usage.generated},
               {"total_tokens", usage.prompt + usage.generated},
               {"prompt_tokens_details", {{"cached_tokens", usage.cached}}}};
  if (const auto reasoning = usage.reasoning())
    json["completion_tokens_details"] = {{"reasoning_tokens", *reasoning}};
  return json;
}

}  // namespace veery::serve
