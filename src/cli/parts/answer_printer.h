// answer_printer.h: an answer as people read it: reasoning dimmed, tool calls on lines of their
// own.
#pragma once
#include <vector>

#include "cli/parts/output.h"
#include "text/answer/answer_parser.h"

namespace veery::cli {

/// `styled`: for a terminal, with its escape sequences.
class AnswerPrinter {
 public:
  AnswerPrinter(Output& out, bool styled) : out_(out), styled_(styled) {}
  void print(const std::vector<AnswerDelta>& deltas);
  /// The terminal is plain again.
  void end() { enter(Part::kNone); }

 private:
  enum class Part { kNone, kContent, kReasoning, kCall };
  void enter(Part part);

  Output& out_;
  bool styled_;
  Part part_ = Part::kNone;
};

}  // namespace veery::cli
