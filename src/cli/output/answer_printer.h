// answer_printer.h: an answer as people read it: reasoning dimmed, tool calls on lines of their
// own.
#pragma once
#include <vector>

#include "cli/output/output.h"
#include "text/answer/answer_parser.h"

namespace veery::cli {

/// How an answer is shown.
struct AnswerLook {
  bool styled = false;  ///< for a terminal, with its escape sequences
  bool hide_reasoning = false;
  /// Each call of a tool is a line of JSON, as OpenAI's clients write it in tool_calls, when it is
  /// complete.
  bool json_calls = false;
};

class AnswerPrinter {
 public:
  AnswerPrinter(Output& out, const AnswerLook& look) : out_(out), look_(look) {}
  void print(const std::vector<AnswerDelta>& deltas);
  /// Prints the calls of a whole answer if they are shown as JSON. The terminal is plain again.
  void end(const ParsedAnswer& answer = {});
  /// Whether anything was written.
  bool wrote() const { return wrote_; }
  /// Ends the line if something was written to it.
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
