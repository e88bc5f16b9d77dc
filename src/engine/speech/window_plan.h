// window_plan.h: which parts of a sound are heard, and as which windows.
#pragma once
#include <vector>

#include "audio/log_mel.h"

namespace veery {

/// The clock of a sound of which only some stretches were kept, one behind the other.
class KeptClock {
 public:
  /// Nothing is missing.
  KeptClock() = default;
  explicit KeptClock(std::span<const FrameRange> kept);

  /// Where in the whole sound it is what is `seconds` from the beginning in what was kept. Where
  /// two stretches meet that is where the second one begins, or where the first one ends.
  double start_of(double seconds) const;
  double end_of(double seconds) const;

 private:
  struct Stretch {
    double kept, whole;  ///< where it begins
  };
  std::vector<Stretch> stretches_;
};

/// Windows of at most `longest` frames that cover the first `frames`: each ends at the quietest
/// place of its last third, the middle of the 0.3 s with the least energy, the last one at the end.
std::vector<FrameRange> quiet_windows(const MelSpectrogram& mel, int64_t frames, int64_t longest);

}  // namespace veery
