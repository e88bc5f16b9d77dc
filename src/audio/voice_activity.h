// voice_activity.h: voice activity detection: the parts of a sound that contain speech.
#pragma once
#include <vector>

#include "audio/log_mel.h"

namespace veery {

struct VoiceOptions {
  double threshold = 0.15;     ///< frames with more speech_evidence() are speech
  double least_speech = 0.25;  ///< seconds of speech frames; shorter stretches are dropped
  double least_silence = 2;    ///< seconds; shorter pauses are part of the speech
  double pad = 0.4;            ///< seconds kept before and after speech
};

/// Returns for each of the first `frames` frames the evidence of speech: the log likelihood ratio
/// of speech plus noise to noise alone, averaged over the bands (Sohn, Kim and Sung, "A statistical
/// model-based voice activity detection", IEEE Signal Processing Letters 6, 1999).
///
/// The a-priori SNR is estimated decision-directed (Ephraim and Malah, 1984). The noise power of a
/// band is the minimum over 3 s of its mean power over 0.17 s, times 1.5 (minimum statistics,
/// Martin, 2001), but at least that of rounding to 16 bits.
std::vector<float> speech_evidence(const MelSpectrogram& mel, int64_t frames);

/// Returns the ranges of frames with speech, ascending and disjoint.
std::vector<FrameRange> find_speech(const MelSpectrogram& mel, int64_t frames,
                                    const VoiceOptions& options);

}  // namespace veery
