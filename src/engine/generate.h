// generate.h: what an answer was and what it took.
#pragma once
#include <string>
#include <vector>

#include "engine/answer_text.h"

namespace veery {

/// The sampling options that the file recommends (general.sampling.*), else `defaults`.
SamplerOptions recommended_sampling(const Metadata& metadata, const SamplerOptions& defaults = {});

struct Generation {
  std::string text;
  std::vector<int32_t> ids;  ///< all that were made, one that ended the answer included
  FinishReason finish = FinishReason::kLength;
  std::string stop;            ///< the stop string that ended it; empty: none did
  int32_t stop_id = -1;        ///< the one of stop_ids that ended it; -1: none did
  size_t reused_tokens = 0;    ///< of the prompt, found in the cache
  size_t prompt_tokens = 0;    ///< of the prompt, run
  size_t drafted_tokens = 0;   ///< of drafts that were tested (schedule/draft.h)
  size_t accepted_tokens = 0;  ///< of these, those of the answer
  double prompt_seconds = 0;
  double decode_seconds = 0;
  double prompt_rate() const;
  /// Tokens after the first, which comes out of the prompt's run, a second.
  double decode_rate() const;
};

}  // namespace veery
