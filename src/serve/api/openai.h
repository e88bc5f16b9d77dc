// openai.h: what OpenAI's endpoints share.
#pragma once
#include <string>

#include "base/json.h"
#include "serve/api/answers.h"
#include "serve/http/message.h"
#include "text/tokenizer.h"

namespace veery::serve {

/// Server-sent events: "data: {...}".
class EventStream {
 public:
  /// The head of the answer goes out with the first event.
  explicit EventStream(Reply& reply) : reply_(reply) {}
  /// False: the client is gone.
  bool data(const Json& json) { return event({}, json); }
  /// With a name, as some APIs have it.
  bool event(std::string_view name, const Json& json);
  /// A comment, so that nobody takes the stream for dead.
  bool ping();
  /// "[DONE]", and the end of the answer.
  void done();
  void end();

 private:
  void begin();
  Reply& reply_;
};

/// {"token": ..., "logprob": ..., "bytes": [...]}
Json chance_json(const TokenChance& chance, const Tokenizer& tokenizer);

/// The same with "top_logprobs", the most probable tokens in its place.
Json score_json(const ScoredToken& score, const Tokenizer& tokenizer);

/// The stop string or the id of stop_token_ids that ended an answer, as vLLM tells it, or null.
Json stop_reason(const Generation& result);

/// The prompt counts once, whatever the number of answers.
Json usage_json(const Answers& answers, const std::string& reasoning, const Tokenizer& tokenizer);

}  // namespace veery::serve
