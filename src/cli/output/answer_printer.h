// answer_printer.h: prints an answer for people: reasoning dimmed, each tool call on its own line.
#pragma once
#include <vector>

#include "cli/output/output.h"
#include "text/answer/answer_parser.h"

namespace veery::cli {

/// How an answer is printed.
struct AnswerLook {
  bool styled = false;  ///< with the escape sequences of a terminal
  bool hide_reasoning = false;
  /// Prints each complete tool call as a line of JSON, an element of OpenAI's `tool_calls`.
  bool json_calls = false;
};

class AnswerPrinter {
 public:
  AnswerPrinter(Output& out, const AnswerLook& look) : out_(out), look_(look) {}
  void print(const std::vector<AnswerDelta>& deltas);
  /// Ends the current style. Prints the calls of `answer` if `json_calls` is set.
  void end(const ParsedAnswer& answer = {});
  /// Whether anything was written.
  bool wrote() const { return wrote_; }
  /// Writes a line break unless the output is at the beginning of a line.
  void end_line();

 private:
  enum class Part { kNone, kContent, kReasoning, kCall };
  void enter(Part part);
  void write(std::string_view text);

  Output& out_;
  AnswerLook look_;
  Part part_ = Part::kNone;
  bool wrote_ = false, at_line_begin_ = true;
};

}  // namespace veery::cli
