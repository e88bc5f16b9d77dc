#include "cli/parts/answer_printer.h"

namespace veery::cli {
namespace {

// ECMA-48, select graphic rendition.
constexpr const char* kDim = "\x1b[2m";
constexpr const char* kBold = "\x1b[1m";
constexpr const char* kPlain = "\x1b[0m";

}  // namespace

// Parts are separated by a line; a style never lasts beyond its part.
void AnswerPrinter::enter(Part part) {
  if (part == part_ && part != Part::kCall) return;
  if (styled_ && (part_ == Part::kReasoning || part_ == Part::kCall)) out_.write(kPlain);
  if (part_ != Part::kNone && part != Part::kNone) out_.write("\n");
  if (styled_ && part == Part::kReasoning) out_.write(kDim);
  if (styled_ && part == Part::kCall) out_.write(kBold);
  part_ = part;
}

void AnswerPrinter::print(const std::vector<AnswerDelta>& deltas) {
  using Kind = AnswerDelta::Kind;
  for (const AnswerDelta& delta : deltas) {
    if (delta.kind == Kind::kReasoning) enter(Part::kReasoning);
    if (delta.kind == Kind::kContent) enter(Part::kContent);
    if (delta.kind == Kind::kCall) {
      enter(Part::kCall);
      out_.write("[call] ");
    }
    out_.foreign(delta.text);
    if (delta.kind == Kind::kCall) out_.write(" ");
  }
  if (!deltas.empty()) out_.flush();
}

}  // namespace veery::cli
