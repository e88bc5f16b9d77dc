// word_aligner.h: the words of a window of sound, by one more pass of the decoder over what it
// said.
#pragma once
#include <span>
#include <utility>
#include <vector>

#include "engine/runner.h"
#include "tasks/speech/alignment.h"
#include "tasks/speech/speech_tokens.h"
#include "tasks/speech/words.h"

namespace veery {

/// Seconds of a position of the encoder.
inline constexpr double kPositionSeconds = 0.02;

/// Heads of the decoder that follow the sound tell which position each token is said at. The pass
/// is a run of its own (Runner::run_with()), so that nothing is slower where words are not wanted.
/// Not for several threads at once. Runner, tokens and keys must outlive it.
class WordAligner {
 public:
  WordAligner(Runner& runner, const SpeechTokens& tokens, const SpeechKeys& keys);

  /// Throws kUnsupported, naming the list, where the model does not say which heads follow the
  /// sound.
  void require_heads() const;

  /// What was said in the sound that was encoded for a sequence, of which the first `positions` of
  /// the encoder are sound and not silence behind its end. `start`: <|startoftranscript|> and what
  /// belongs to it; `text`: tokens of text alone. Times are from the beginning of the window. The
  /// sequence is rewound before and after.
  std::vector<SpokenWord> align(int32_t sequence, std::span<const int32_t> start,
                                std::span<const int32_t> text, int64_t positions, bool characters);

 private:
  struct Pass;

  void run_piece(Pass& pass, int64_t begin, int64_t end);
  AlignmentWeights weights_of(Pass& pass) const;

  Runner& runner_;
  const SpeechTokens& tokens_;
  const SpeechKeys& keys_;
};

}  // namespace veery
