// response_writer.h: writes an answer as items and events of OpenAI's Responses API.
#pragma once
#include <functional>
#include <string>
#include <vector>

#include "schedule/ticket.h"
#include "serve/api/reply_writer.h"
#include "serve/responses/response_tools.h"

namespace veery::serve {

struct ResponseOptions {
  bool sealed_reasoning = false;  ///< reasoning items have "encrypted_content"
  bool logprobs = false;          ///< text parts have the log-probabilities of their tokens
};

/// Builds the response piece by piece, as its items are in the order of the answer's parts.
class ResponseWriter : public ReplyWriter {
 public:
  /// Called with the complete response before the client has it.
  using Complete = std::function<void(const Json& response)>;

  /// `body`: the response without items. All references must outlive it.
  ResponseWriter(Json body, const ResponseTools& tools, const Tokenizer& tokenizer,
                 ResponseOptions options, Complete complete);

  Json whole(AnswerList answers, const AnswerUsage& usage) override;
  void begin(AnswerList answers, EventStream& stream) override;
  void add(const Answer& answer, const AnswerPiece& piece, EventStream& stream) override;
  void finish(AnswerList answers, const AnswerUsage& usage, EventStream& stream) override;

 private:
  enum class Kind { kNone, kText, kReasoning, kCall, kCustom };

  void send(const char* type, Json members);
  Json of_item(Json members) const;
  void begin_item(Kind kind, Json item);
  void show(const Answer& answer, const AnswerPiece& piece);
  void show(const AnswerDelta& delta, const Answer& answer);
  void add_text(const std::string& text);
  void add_reasoning(const std::string& text);
  void begin_call(const AnswerDelta& delta, const Answer& answer);
  void add_arguments(const std::string& text);
  void add_input(const std::string& text);
  void close(const char* status = "completed");
  void close_text();
  bool complete(const Generation& result, const AnswerUsage& usage);
  Json text_part(const std::string& text, Json scores) const;

  Json body_;
  const ResponseTools& tools_;
  const Tokenizer& tokenizer_;
  ResponseOptions options_;
  Complete complete_;
  EventStream* stream_ = nullptr;  // of begin(); nullptr: a whole reply
  Kind kind_ = Kind::kNone;
  Json item_, scores_ = Json::array(), fresh_scores_ = Json::array();
  std::string text_;
  CustomInput input_;
  int64_t number_ = 0;
};

}  // namespace veery::serve
