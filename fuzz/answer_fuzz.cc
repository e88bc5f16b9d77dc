// Parses answers: the first line of the input names the format, the rest is the answer. The result
// must not depend on how the answer is split into pieces.
#include <algorithm>
#include <string>
#include <string_view>

#include "base/error.h"
#include "text/answer/answer_parser.h"

namespace {

std::string summary(const veery::AnswerFormat& format, std::string_view text, size_t piece) {
  veery::AnswerParser parser(format);
  for (size_t at = 0; at < text.size(); at += piece) parser.push(text.substr(at, piece));
  parser.finish();
  const veery::ParsedAnswer& answer = parser.answer();
  std::string all = answer.content + "\n" + answer.reasoning + (answer.broken ? "!" : "");
  for (const veery::ToolCall& call : answer.calls)
    all += "\n" + call.id + call.name + call.arguments + (call.complete ? "+" : "-") +
           (call.valid ? "+" : "-");
  return all;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view input(reinterpret_cast<const char*>(data),
                               std::min<size_t>(size, 1 << 16));
  const size_t line = std::min(input.find('\n'), input.size());
  veery::AnswerFormat format;
  try {
    format = veery::AnswerFormat::named(input.substr(0, line));
  } catch (const veery::Error&) {
    format = veery::AnswerFormat::of_template(input);
  }
  const std::string_view text = input.substr(std::min(line + 1, input.size()));
  const std::string whole = summary(format, text, text.size() + 1);
  for (const size_t piece : {size_t{1}, size_t{7}})
    if (summary(format, text, piece) != whole) __builtin_trap();
  return 0;
}
