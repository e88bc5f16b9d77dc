// window_plan.h: which parts of a sound are encoded, and as which windows.
#pragma once
#include <vector>

#include "audio/log_mel.h"

namespace veery {

/// Seconds.
struct TimeRange {
  double start = 0, end = 0;
};

/// The clock of a sound of which only some stretches were kept, one behind the other.
class KeptClock {
 public:
  /// Nothing is missing.
  KeptClock() = default;
  /// `edge`: seconds at the beginning and at the end of each in which nothing begins or ends.
  KeptClock(std::span<const FrameRange> kept, double edge);

  /// Where in the whole sound it is what is `seconds` from the beginning in what was kept.
  double whole(double seconds) const;
  /// The same of something that was said: what goes over the end of a stretch by no more than an
  /// edge lies in the other one alone.
  TimeRange whole(TimeRange said) const;

 private:
  struct Stretch {
    double kept, whole, length;  ///< where it begins, and how long it is

    double kept_end() const { return kept + length; }
  };
  const Stretch& stretch_at(double seconds) const;

  std::vector<Stretch> stretches_;
  double edge_ = 0;
};

/// Windows of at most `longest` frames that cover the first `frames`: each ends at the quietest
/// place of its last third, the middle of the 0.3 s with the least energy, the last one at the end.
std::vector<FrameRange> quiet_windows(const MelSpectrogram& mel, int64_t frames, int64_t longest);

}  // namespace veery
