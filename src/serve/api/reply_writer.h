// reply_writer.h: how one API writes answers, as a whole reply or as a stream.
#pragma once
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/json.h"
#include "schedule/ticket.h"
#include "serve/api/event_stream.h"
#include "serve/api/tool_choice.h"
#include "text/answer/answer_parser.h"
#include "text/tokenizer.h"

namespace veery::serve {

/// A piece of an answer.
struct AnswerPiece {
  std::string text;
  std::vector<ScoredToken> scores;  ///< of the tokens since the last piece, if requested
  std::vector<AnswerDelta> deltas;  ///< `text` split by the parser; empty if there is no parser

  bool is_empty() const { return text.empty() && scores.empty() && deltas.empty(); }
};

/// One answer of a request.
struct Answer {
  int64_t index = 0;  ///< among the answers of all prompts
  size_t prompt = 0;  ///< index of its prompt
  std::shared_ptr<const Ticket> ticket;
  std::optional<AnswerParser> parser;
  CallLimit limit;
  std::vector<AnswerPiece> pieces = {};  ///< all pieces, in order; kept for whole replies only

  /// Returns a call whose beginning a delta has announced. Needs a parser.
  const ToolCall& call(size_t i) const { return parser->answer().calls[i]; }
  /// Returns whether a call has begun.
  bool calls() const { return parser && !parser->answer().calls.empty(); }
  /// Returns content, reasoning and calls that the client may see. Needs a parser.
  ParsedAnswer parsed() const { return limit.limited(parser->answer()); }
  // Valid once the answer is over:
  const Generation& result() const { return ticket->result(); }
  const std::vector<ScoredToken>& prompt_scores() const { return ticket->prompt_scores(); }
};

using AnswerList = std::span<const Answer>;

/// The tokens that a request has used. Valid once all answers are over.
struct AnswerUsage {
  /// `answers` and `tokenizer` must outlive it.
  AnswerUsage(AnswerList answers, const Tokenizer& tokenizer);

  int64_t prompt = 0;     ///< of the prompts; a prompt counts once for all of its answers
  int64_t cached = 0;     ///< of them, found in the prefix cache
  int64_t generated = 0;  ///< of all answers
  /// Returns the number of reasoning tokens of all answers, counted by encoding the reasoning
  /// again; absent if the answers are not parsed.
  std::optional<int64_t> reasoning() const;

 private:
  AnswerList answers_;
  const Tokenizer& tokenizer_;
};

/// Returns the arguments of a call as an object, which is empty if the model wrote none.
Json arguments_json(const ToolCall& call);

/// Writes the answers of one request in the format of an API. send_answers() calls it and does
/// everything else, so a writer neither waits nor looks at the connection.
class ReplyWriter {
 public:
  virtual ~ReplyWriter() = default;

  /// Returns the body of a whole reply.
  virtual Json whole(AnswerList answers, const AnswerUsage& usage) = 0;

  // A stream calls begin(), then add() and end() of all answers in the order of their arrival, then
  // finish().
  virtual void begin(AnswerList, EventStream&) {}
  virtual void add(const Answer& answer, const AnswerPiece& piece, EventStream& stream) = 0;
  /// The answer is over.
  virtual void end(const Answer&, EventStream&) {}
  /// All answers are over.
  virtual void finish(AnswerList answers, const AnswerUsage& usage, EventStream& stream) = 0;
  /// Nothing was written for some seconds.
  virtual void ping(EventStream& stream) { stream.ping(); }
};

}  // namespace veery::serve
