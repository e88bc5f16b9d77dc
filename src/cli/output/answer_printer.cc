#include "cli/output/answer_printer.h"

namespace veery::cli {
namespace {

// ECMA-48, select graphic rendition.
constexpr const char* kDim = "\x1b[2m";
constexpr const char* kBold = "\x1b[1m";
constexpr const char* kPlain = "\x1b[0m";

}  // namespace

void AnswerPrinter::write(std::string_view text) {
  if (text.empty()) return;
  out_.untrusted(text);
  wrote_ = true;
  at_line_begin_ = text.ends_with('\n');
}

// Parts are separated by a line break. A style ends with its part.
void AnswerPrinter::enter(Part part) {
  if (part == part_ && part != Part::kCall) return;
  if (look_.styled && (part_ == Part::kReasoning || part_ == Part::kCall)) out_.write(kPlain);
  if (part_ != Part::kNone && part != Part::kNone) write("\n");
  if (look_.styled && part == Part::kReasoning) out_.write(kDim);
  if (look_.styled && part == Part::kCall) out_.write(kBold);
  part_ = part;
}

void AnswerPrinter::print(const std::vector<AnswerDelta>& deltas) {
  using Kind = AnswerDelta::Kind;
  for (const AnswerDelta& delta : deltas) {
    const bool call =
        delta.kind == Kind::kCall || delta.kind == Kind::kArguments || delta.kind == Kind::kCallEnd;
    if (delta.kind == Kind::kReasoning && look_.hide_reasoning) continue;
    if (call && look_.json_calls) continue;
    if (delta.kind == Kind::kReasoning) enter(Part::kReasoning);
    if (delta.kind == Kind::kContent) enter(Part::kContent);
    if (delta.kind == Kind::kCall) {
      enter(Part::kCall);
      write("[call] ");
    }
    write(delta.text);
    if (delta.kind == Kind::kCall) write(" ");
  }
  if (!deltas.empty()) out_.flush();
}

void AnswerPrinter::end_line() {
  if (!at_line_begin_) write("\n");
  out_.flush();
}

void AnswerPrinter::end(const ParsedAnswer& answer) {
  enter(Part::kNone);
  if (!look_.json_calls || answer.calls.empty()) return;
  end_line();
  wrote_ = true;
  for (const ToolCall& call : answer.calls)
    out_.json({{"id", call.id},
               {"type", "function"},
               {"function", {{"name", call.name}, {"arguments", call.arguments}}}});
  at_line_begin_ = true;
}

}  // namespace veery::cli
