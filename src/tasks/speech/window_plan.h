// window_plan.h: divides a sound into windows, and maps times after silence was removed.
#pragma once
#include <vector>

#include "audio/log_mel.h"

namespace veery {

/// A range in seconds.
struct TimeRange {
  double start = 0, end = 0;
};

/// Maps times in the kept stretches of a sound, joined together, to times in the whole sound.
class KeptClock {
 public:
  /// The whole sound is kept.
  KeptClock() = default;
  /// `edge`: seconds at both ends of each stretch in which no speech begins or ends.
  KeptClock(std::span<const FrameRange> kept, double edge);

  /// Returns the time in the whole sound of a time in the kept stretches.
  double whole(double seconds) const;
  /// The same for a range of speech. A range that extends over the end of a stretch by at most an
  /// edge is assigned to the other stretch alone.
  TimeRange whole(TimeRange said) const;

 private:
  struct Stretch {
    double kept, whole, length;  ///< begin in the kept and in the whole sound, and length

    double kept_end() const { return kept + length; }
  };
  const Stretch& stretch_at(double seconds) const;

  std::vector<Stretch> stretches_;
  double edge_ = 0;
};

/// Returns windows of at most `longest` frames that cover the first `frames` frames. Each ends at
/// the quietest point of its last third (the middle of the 0.3 s with the least energy), the last
/// one at the end.
std::vector<FrameRange> quiet_windows(const MelSpectrogram& mel, int64_t frames, int64_t longest);

}  // namespace veery
