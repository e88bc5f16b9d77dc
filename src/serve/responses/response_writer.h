// response_writer.h: writes an answer as items and events of OpenAI's Responses API.
#pragma once
#include <string>
#include <vector>

#include "engine/generate.h"
#include "schedule/ticket.h"
#include "serve/api/openai.h"
#include "serve/responses/response_tools.h"
#include "text/answer/answer_parser.h"

namespace veery::serve {

struct ResponseOptions {
  bool sealed_reasoning = false;  ///< reasoning items have "encrypted_content"
  bool logprobs = false;          ///< text parts have the log-probabilities of their tokens
};

/// Builds the response while the answer is generated, and sends events if there is a stream.
class ResponseWriter {
 public:
  /// `body`: the response without items. `events` may be null. All arguments must outlive it.
  ResponseWriter(Json body, const ResponseTools& tools, const Tokenizer& tokenizer,
                 EventStream* events, ResponseOptions options);

  void show(const AnswerDelta& delta, const AnswerParser& parser);
  /// Adds the scores of the tokens of the next deltas.
  void add_scores(const std::vector<ScoredToken>& scores);
  /// Ends the last item and returns the response. `usage`: from usage_json().
  Json finish(const Generation& result, const Json& usage);
  /// Returns false if the client is gone.
  bool alive() const { return alive_; }
  const std::string& reasoning() const { return reasoning_; }

 private:
  enum class Kind { kNone, kText, kReasoning, kCall, kCustom };

  void send(const char* type, Json members);
  Json of_item(Json members) const;
  void begin(Kind kind, Json item);
  void add_text(const std::string& text);
  void add_reasoning(const std::string& text);
  void begin_call(const AnswerDelta& delta, const AnswerParser& parser);
  void add_arguments(const std::string& text);
  void add_input(const std::string& text);
  void close(const char* status = "completed");
  void close_text();
  Json text_part(const std::string& text, Json scores) const;

  Json body_;
  const ResponseTools& tools_;
  const Tokenizer& tokenizer_;
  EventStream* events_;
  ResponseOptions options_;
  Kind kind_ = Kind::kNone;
  Json item_, scores_ = Json::array(), fresh_scores_ = Json::array();
  std::string text_, reasoning_;
  CustomInput input_;
  int64_t number_ = 0;
  bool alive_ = true;
};

}  // namespace veery::serve
