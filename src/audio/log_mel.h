// log_mel.h: log-mel spectrograms for Whisper (Radford et al., arXiv:2212.04356).
#pragma once
#include <cstdint>
#include <span>
#include <vector>

#include "base/thread_pool.h"

namespace veery {

inline constexpr int kMelWindow = 400;  ///< samples per frame at kSoundRate
inline constexpr int kMelStep = 160;    ///< hop size in samples
inline constexpr int kMelFramesPerSecond = 100;

/// Frames [first, end).
struct FrameRange {
  int64_t first = 0, end = 0;
};

/// A log-mel spectrogram: log10 of the energy per frame and band, at least -10. Bands are spaced
/// evenly on Slaney's mel scale from 0 to 8 kHz with filters of equal area (as in librosa). Frame t
/// is centred at sample 160 t; the sound is reflected at both ends.
class MelSpectrogram {
 public:
  /// `pool` must outlive it.
  MelSpectrogram(int bands, ThreadPool& pool);

  /// Reserves memory for the expected number of samples.
  void expect(int64_t samples);
  /// Appends samples.
  void push(std::span<const float> samples);
  /// Ends the sound and pads it with silence to `least_frames`. Samples after the last whole hop do
  /// not form a frame.
  void finish(int64_t least_frames);
  /// Keeps only the given frames (ascending, disjoint ranges) and pads with silence to
  /// `least_frames`.
  void keep(std::span<const FrameRange> ranges, int64_t least_frames);

  int bands() const { return bands_; }
  int64_t frames() const { return frames_; }
  int64_t samples() const { return samples_; }  ///< number of samples pushed, without padding

  /// Writes frames [first, first + count) scaled for the encoder: (max(x, largest - 8) + 4) / 4,
  /// where `largest` is the maximum over all frames; 0 after the last frame. out: [count, bands].
  void window(int64_t first, int64_t count, std::span<float> out) const;
  /// Returns the bands of a frame (log10).
  std::span<const float> frame(int64_t frame) const {
    return std::span(values_).subspan(static_cast<size_t>(frame * bands_),
                                      static_cast<size_t>(bands_));
  }
  /// Returns log10 of the mean energy of a frame's bands.
  float level(int64_t frame) const;

 private:
  struct Filter {
    int first = 0;  ///< first frequency with a nonzero weight
    std::vector<double> weights;
  };
  void find_largest();
  void take_frames();
  void transform(int64_t frame, bool two);

  int bands_;
  ThreadPool& pool_;
  std::vector<Filter> filters_;
  std::vector<double> hann_;
  int64_t samples_ = 0;
  int64_t frames_ = 0;
  int64_t held_first_ = 0;     ///< sample index of held_[0]; negative: reflected
  std::vector<float> held_;    ///< samples that later frames need
  std::vector<float> values_;  ///< [frames][bands]
  float largest_ = -10;
};

/// Returns the weight of each of the 201 frequencies for each band: triangles between the centres
/// of the neighbouring bands with height 2 / width.
std::vector<std::vector<double>> mel_filters(int bands);

}  // namespace veery
