// openai.h: parts of the answers of OpenAI's endpoints.
#pragma once
#include <string>

#include "base/json.h"
#include "serve/api/answers.h"
#include "serve/http/message.h"
#include "text/tokenizer.h"

namespace veery::serve {

/// A stream of server-sent events: "data: {...}".
class EventStream {
 public:
  /// The head of the answer is sent with the first event.
  explicit EventStream(Reply& reply) : reply_(reply) {}
  /// Sends an event. Returns false if the client is gone.
  bool data(const Json& json) { return event({}, json); }
  /// Sends an event with a name. Returns false if the client is gone.
  bool event(std::string_view name, const Json& json);
  /// Sends a comment, so that clients do not take the stream for dead.
  bool ping();
  /// Sends "[DONE]" and ends the answer.
  void done();
  /// Ends the answer.
  void end();

 private:
  void begin();
  Reply& reply_;
};

/// Returns {"token": ..., "logprob": ..., "bytes": [...]}.
Json chance_json(const TokenChance& chance, const Tokenizer& tokenizer);

/// The same with "top_logprobs", the most probable tokens at the position.
Json score_json(const ScoredToken& score, const Tokenizer& tokenizer);

/// Returns vLLM's stop_reason: the stop string or the stop token id that ended the answer, or null.
Json stop_reason(const Generation& result);

/// Returns the object "usage". The prompt counts once, whatever the number of answers.
Json usage_json(const Answers& answers, const std::string& reasoning, const Tokenizer& tokenizer);

}  // namespace veery::serve
