// alignment.h: where in a window of sound the tokens that were said there begin, by the attention
// that the decoder pays to it.
#pragma once
#include <cstdint>
#include <span>
#include <vector>

#include "base/thread_pool.h"

namespace veery {

/// Probabilities with which tokens attend to positions of the encoder, of several heads:
/// [heads][tokens][positions].
struct AlignmentWeights {
  int64_t heads = 0, tokens = 0, positions = 0;
  std::vector<float> values;

  float* head(int64_t i) { return values.data() + i * tokens * positions; }
};

/// How well each token fits each position, [tokens][positions]: of each head, deviations from the
/// mean over the tokens in standard deviations, the median of 7 neighbouring positions (mirrored at
/// the ends) of these, the mean over the heads. As OpenAI's code (whisper/timing.py) has it.
std::vector<float> alignment_scores(AlignmentWeights weights, ThreadPool& pool);

/// The path through scores [tokens][positions] of the largest sum that goes from the first token at
/// the first position to the last of both, a step to the next token, the next position, or both
/// (dynamic time warping: Sakoe and Chiba, 1978): of each token the first position that it is at.
std::vector<int32_t> token_starts(std::span<const float> scores, int64_t tokens, int64_t positions);

}  // namespace veery
