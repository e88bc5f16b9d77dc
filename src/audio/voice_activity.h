// voice_activity.h: where in a sound somebody speaks.
#pragma once
#include <vector>

#include "audio/log_mel.h"

namespace veery {

struct VoiceOptions {
  double threshold = 0.15;     ///< of speech_evidence(): a frame with more of it is speech
  double least_speech = 0.25;  ///< seconds of such frames; a stretch with less is a noise
  double least_silence = 2;  ///< seconds; pauses that are shorter belong to the speech around them
  double pad = 0.4;          ///< seconds that are kept in front of speech and behind it
};

/// Of each of the first `frames` frames, how much more probable it is with speech in it than as
/// noise alone: the mean over the bands of the logarithm of the likelihood ratio of Sohn, Kim and
/// Sung, "A statistical model-based voice activity detection" (IEEE Signal Processing Letters 6,
/// 1999), with the ratio of speech to noise found decision-directed (Ephraim and Malah, 1984). The
/// noise is, band by band, the least mean power of 0.17 s within 1.5 s to either side, times 1.5
/// (after Martin's minimum statistics, 2001), and not below what rounding to 16 bits makes.
std::vector<float> speech_evidence(const MelSpectrogram& mel, int64_t frames);

/// Stretches of speech, rising and apart.
std::vector<FrameRange> find_speech(const MelSpectrogram& mel, int64_t frames,
                                    const VoiceOptions& options);

}  // namespace veery
