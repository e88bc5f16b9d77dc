#include "serve/api/openai.h"

#include <algorithm>

#include "base/utf8.h"
#include "serve/api/context.h"

namespace veery::serve {

void EventStream::begin() {
  if (reply_.begun()) return;
  reply_.add_header("Cache-Control", "no-cache");
  reply_.add_header("X-Accel-Buffering", "no");
  reply_.begin(200, kEvents);
}

bool EventStream::event(std::string_view name, const Json& json) {
  begin();
  std::string text = name.empty() ? std::string() : "event: " + std::string(name) + "\n";
  return reply_.write(text + "data: " + dump_json(json) + "\n\n");
}

bool EventStream::ping() {
  begin();
  return reply_.write(": ping\n\n");
}

void EventStream::done() {
  begin();
  reply_.write("data: [DONE]\n\n");
  reply_.end();
}

void EventStream::end() {
  begin();
  reply_.end();
}

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

Json stop_reason(const Generation& result) {
  if (!result.stop.empty()) return result.stop;
  return result.stop_id >= 0 ? Json(result.stop_id) : Json();
}

Json usage_json(const Answers& answers, const std::string& reasoning, const Tokenizer& tokenizer) {
  const Generation& first = answers.result(0);
  const auto prompt = static_cast<int64_t>(first.prompt_tokens + first.reused_tokens);
  int64_t made = 0;
  for (int32_t i = 0; i < answers.count(); ++i) made += std::ssize(answers.result(i).ids);
  const int64_t thought =
      reasoning.empty() ? 0 : std::ssize(tokenizer.encode(reasoning, {.add_special = false}));
  return {{"prompt_tokens", prompt},
          {"completion_tokens", made},
          {"total_tokens", prompt + made},
          {"prompt_tokens_details", {{"cached_tokens", first.reused_tokens}}},
          {"completion_tokens_details", {{"reasoning_tokens", std::min(thought, made)}}}};
}

}  // namespace veery::serve
