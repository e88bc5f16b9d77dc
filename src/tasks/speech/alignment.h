// alignment.h: aligns tokens to positions in a window of sound, by the cross-attention of the
// decoder.
#pragma once
#include <cstdint>
#include <span>
#include <vector>

#include "base/thread_pool.h"

namespace veery {

/// Attention weights of tokens over encoder positions: [heads][tokens][positions].
struct AlignmentWeights {
  int64_t heads = 0, tokens = 0, positions = 0;
  std::vector<float> values;

  float* head(int64_t i) { return values.data() + i * tokens * positions; }
};

/// Returns how well each token fits each position, [tokens][positions], as OpenAI's code
/// (whisper/timing.py) does: standardises the weights of each head over the tokens, takes the
/// median of 7 neighbouring positions (mirrored at the ends), then the mean over the heads.
std::vector<float> alignment_scores(AlignmentWeights weights, ThreadPool& pool);

/// Returns the first position of each token on the path of largest sum through scores
/// [tokens][positions] (dynamic time warping: Sakoe and Chiba, 1978). The path leads from the first
/// token and position to the last of both; each step advances the token, the position, or both.
std::vector<int32_t> token_starts(std::span<const float> scores, int64_t tokens, int64_t positions);

}  // namespace veery
