// log_mel.h: log-mel spectrograms as Whisper takes them (Radford et al., arXiv:2212.04356).
#pragma once
#include <cstdint>
#include <span>
#include <vector>

#include "base/thread_pool.h"

namespace veery {

inline constexpr int kMelWindow = 400;  ///< samples of a frame, at kSoundRate
inline constexpr int kMelStep = 160;    ///< samples from frame to frame
inline constexpr int kMelFramesPerSecond = 100;

/// Frames [first, end).
struct FrameRange {
  int64_t first = 0, end = 0;
};

/// The energies of frames in bands that lie evenly on Slaney's mel scale from 0 to 8 kHz, each band
/// of the same area (librosa's filters), as logarithms to base 10, from -10 on. Frame t is centred
/// at sample 160 t; what lies before the first and behind the last sample is the sound mirrored.
class MelSpectrogram {
 public:
  /// `pool` must outlive it.
  MelSpectrogram(int bands, ThreadPool& pool);

  /// How many samples will come, as far as is known: they need no more memory then than they take.
  void expect(int64_t samples);
  /// Appends samples.
  void push(std::span<const float> samples);
  /// No more will come: fills up with silence to `least_frames`. A last part of a step is no frame.
  void finish(int64_t least_frames);
  /// Forgets all frames but these, which rise and are apart, and fills up with silence again.
  void keep(std::span<const FrameRange> ranges, int64_t least_frames);

  int bands() const { return bands_; }
  int64_t frames() const { return frames_; }
  int64_t samples() const { return samples_; }  ///< pushed, without silence behind them

  /// Frames [first, first + count) scaled as the encoder takes them: (max(x, largest - 8) + 4) / 4,
  /// `largest` being that of all frames; 0 where there are no more. out: [count, bands].
  void window(int64_t first, int64_t count, std::span<float> out) const;
  /// The bands of one frame, as logarithms to base 10.
  std::span<const float> frame(int64_t frame) const {
    return std::span(values_).subspan(static_cast<size_t>(frame * bands_),
                                      static_cast<size_t>(bands_));
  }
  /// The mean energy of a frame's bands, as a logarithm to base 10.
  float level(int64_t frame) const;

 private:
  struct Filter {
    int first = 0;  ///< the first frequency with a weight
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
  int64_t held_first_ = 0;     ///< the sample that held_[0] is; before the sound it is mirrored
  std::vector<float> held_;    ///< samples that frames to come need
  std::vector<float> values_;  ///< [frames][bands]
  float largest_ = -10;
};

/// One band's weight of each of the 201 frequencies of a frame: triangles between the middles of
/// the neighbours, 2 / width high.
std::vector<std::vector<double>> mel_filters(int bands);

}  // namespace veery
