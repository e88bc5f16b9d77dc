// word_aligner.h: times of the words of a window, by another pass of the decoder over its text.
#pragma once
#include <span>
#include <utility>
#include <vector>

#include "engine/session.h"
#include "tasks/speech/alignment.h"
#include "tasks/speech/speech_tokens.h"
#include "tasks/speech/words.h"

namespace veery {

/// Duration of an encoder position, in seconds.
inline constexpr double kPositionSeconds = 0.02;

/// The alignment heads of the decoder attend to the position at which a token is spoken. The pass
/// is a separate run (RunPart::roots), so decoding is not slower without words. Not
/// thread-safe. Session, tokens and keys must outlive it.
class WordAligner {
 public:
  WordAligner(Session& session, const SpeechTokens& tokens, const SpeechKeys& keys);

  /// Throws kUnsupported naming the list if the model does not list its alignment heads.
  void require_heads() const;

  /// Returns the words of `text`, text tokens of the sound that was encoded for a sequence.
  /// `positions`: encoder positions with sound, without the padding. `start`:
  /// <|startoftranscript|>, language and task. `characters`: split_words(). Times are relative to
  /// the window. Rewinds the sequence before and after.
  std::vector<SpokenWord> align(int32_t sequence, std::span<const int32_t> start,
                                std::span<const int32_t> text, int64_t positions, bool characters);

 private:
  struct Pass;

  void run_piece(Pass& pass, int64_t begin, int64_t end);
  AlignmentWeights weights_of(Pass& pass) const;

  Session& session_;
  const SpeechTokens& tokens_;
  const SpeechKeys& keys_;
};

}  // namespace veery
