// generate.h: a finished answer: text, tokens, counts and times.
#pragma once
#include <string>
#include <vector>

#include "engine/answer_text.h"

namespace veery {

/// Returns the sampling options that the file recommends (general.sampling.*); `defaults` for those
/// that it lacks.
SamplerOptions recommended_sampling(const Metadata& metadata, const SamplerOptions& defaults = {});

struct Generation {
  std::string text;
  std::vector<int32_t> ids;  ///< all generated tokens, including one that ended the answer
  FinishReason finish = FinishReason::kLength;
  std::string stop;            ///< the stop string that ended it; empty if none did
  int32_t stop_id = -1;        ///< the element of stop_ids that ended it; -1 if none did
  size_t reused_tokens = 0;    ///< prompt tokens that the prefix cache held
  size_t prompt_tokens = 0;    ///< prompt tokens that were evaluated
  size_t drafted_tokens = 0;   ///< draft tokens that were verified (schedule/drafts/draft.h)
  size_t accepted_tokens = 0;  ///< draft tokens that were accepted
  double prompt_seconds = 0;
  double decode_seconds = 0;
  double prompt_rate() const;  ///< evaluated prompt tokens per second
  /// Decoded tokens per second, without the first token, which the prefill produces.
  double decode_rate() const;
};

}  // namespace veery
