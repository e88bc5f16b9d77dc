// answer_summary.h: the line about speed and memory after an answer.
#pragma once
#include <cstddef>
#include <string>

#include "engine/generate.h"

namespace veery::cli {

/// Counts and times of one answer. An answer has several parts if a chat drops its oldest turns
/// while the answer is generated (--context-shift): each part then evaluates a prompt of its own.
struct AnswerSummary {
  size_t parts = 0;
  size_t prompt_tokens = 0;    ///< evaluated, all parts
  size_t cached_tokens = 0;    ///< of the prompts, found in the KV cache, all parts
  size_t answer_tokens = 0;    ///< all parts
  size_t accepted_tokens = 0;  ///< draft tokens among them
  double prompt_seconds = 0, decode_seconds = 0;
  FinishReason finish = FinishReason::kLength;  ///< of the last part

  void add(const Generation& part);
  /// Tokens a second; 0 if there were none or no time was measured. The first answer token of a
  /// part comes out of the prefill and does not count as decoded.
  double prompt_rate() const;
  double decode_rate() const;
};

/// Returns the summary as one line in brackets. `peak_bytes`: peak_memory().
std::string summary_line(const AnswerSummary& summary, double load_seconds, size_t peak_bytes);

}  // namespace veery::cli
