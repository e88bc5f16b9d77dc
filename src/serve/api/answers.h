// answers.h: generates the answers of a request and sends them by a ReplyWriter.
#pragma once
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "schedule/ticket.h"
#include "serve/api/reply_writer.h"
#include "serve/api/tool_choice.h"
#include "serve/http/message.h"
#include "serve/models/served_model.h"
#include "text/answer/answer_parser.h"

namespace veery::serve {

struct AnswerRequest {
  /// Must have a scheduler (require_scheduler()).
  ServedModel& model;
  GenerateRequest generate;
  /// Replace generate.prompt; empty: generate.prompt is the only prompt.
  std::span<const std::vector<int32_t>> prompts = {};
  /// Answers to each prompt, with the seed of `generate` and the following ones.
  int32_t count = 1;
  bool stream = false;
  /// Splits an answer into content, reasoning and calls; absent: its text stays as it is.
  std::optional<AnswerParser> parser = {};
  ToolChoice choice = {};  ///< may end an answer after its first call
  /// Time limit in seconds from the first piece of an answer; an answer that exceeds it ends once
  /// it contains a line feed. 0: no limit.
  double most_seconds = 0;
  double ping_seconds = 10;  ///< a stream in which nothing was written for so long sends a ping
};

/// Generates the answers and sends them with status 200. Cancels them if the client leaves, adds
/// the used tokens to the record of `reply`, and pings the client of a quiet stream. Throws what
/// the scheduler throws, the error that ended an answer, and ApiError 503 if the server stops;
/// cancels the other answers then. A stream may have begun by that time.
void send_answers(const AnswerRequest& request, ReplyWriter& writer, Reply& reply);

/// Sets user, weight and priority of `request`.
void set_user(GenerateRequest& request, const RequestRecord& record);

}  // namespace veery::serve
