#include "cli/output/answer_summary.h"

#include <fmt/format.h>

#include "cli/output/output.h"

namespace veery::cli {
namespace {

double rate(size_t tokens, double seconds) {
  return seconds > 0 ? static_cast<double>(tokens) / seconds : 0;
}

const char* note_of(FinishReason finish) {
  if (finish == FinishReason::kLength) return ", length reached";
  return finish == FinishReason::kCancelled ? ", stopped" : "";
}

}  // namespace

void AnswerSummary::add(const Generation& part) {
  ++parts;
  prompt_tokens += part.prompt_tokens;
  cached_tokens += part.reused_tokens;
  answer_tokens += part.ids.size();
  accepted_tokens += part.accepted_tokens;
  prompt_seconds += part.prompt_seconds;
  decode_seconds += part.decode_seconds;
  finish = part.finish;
}

double AnswerSummary::prompt_rate() const { return rate(prompt_tokens, prompt_seconds); }

double AnswerSummary::decode_rate() const {
  return rate(answer_tokens > parts ? answer_tokens - parts : 0, decode_seconds);
}

std::string summary_line(const AnswerSummary& summary, double load_seconds, size_t peak_bytes) {
  const std::string cached =
      summary.cached_tokens > 0 ? fmt::format(" (+{} cached)", summary.cached_tokens) : "";
  const std::string accepted =
      summary.accepted_tokens > 0 ? fmt::format(" ({} drafted)", summary.accepted_tokens) : "";
  const std::string parts = summary.parts > 1 ? fmt::format(" in {} parts", summary.parts) : "";
  return fmt::format(
      "[prompt {} tokens{}, {:.1f} tok/s | answer {} tokens{}{}, {:.1f} tok/s{} | load {:.2f} s | "
      "peak memory {}]\n",
      summary.prompt_tokens, cached, summary.prompt_rate(), summary.answer_tokens, accepted, parts,
      summary.decode_rate(), note_of(summary.finish), load_seconds,
      human_bytes(static_cast<double>(peak_bytes)));
}

}  // namespace veery::cli
