#include "tasks/speech/window_plan.h"

#include <algorithm>
#include <cmath>

namespace veery {
namespace {

constexpr int64_t kReach = 15;  // frames to either side

// Returns the quietest frame in the last third of the first `longest` frames of a range. Among
// equally quiet frames it returns the latest, because longer windows mean fewer windows.
int64_t quietest(const MelSpectrogram& mel, FrameRange range, int64_t longest) {
  const int64_t from = range.first + std::max<int64_t>(longest * 2 / 3, 1);
  const int64_t to = range.first + longest;
  const int64_t begin = std::max(from - kReach, range.first),
                end = std::min(to + kReach, range.end);
  std::vector<double> sums = {0};  // prefix sums of the energies
  for (int64_t t = begin; t < end; ++t) sums.push_back(sums.back() + std::pow(10.0, mel.level(t)));
  int64_t best = to;
  double least = 0;
  for (int64_t middle = from; middle <= to; ++middle) {
    const int64_t first = std::max(middle - kReach, begin), last = std::min(middle + kReach, end);
    const double mean =
        (sums[static_cast<size_t>(last - begin)] - sums[static_cast<size_t>(first - begin)]) /
        static_cast<double>(last - first);
    if (middle == from || mean <= least) least = mean, best = middle;
  }
  return best;
}

}  // namespace

KeptClock::KeptClock(std::span<const FrameRange> kept, double edge) : edge_(edge) {
  double so_far = 0;
  for (const FrameRange& range : kept) {
    const double length = static_cast<double>(range.end - range.first) / kMelFramesPerSecond;
    stretches_.push_back({so_far, static_cast<double>(range.first) / kMelFramesPerSecond, length});
    so_far += length;
  }
}

const KeptClock::Stretch& KeptClock::stretch_at(double seconds) const {
  const auto after = std::ranges::upper_bound(stretches_, seconds, {}, &Stretch::kept);
  return after == stretches_.begin() ? *after : *(after - 1);
}

double KeptClock::whole(double seconds) const {
  if (stretches_.empty()) return seconds;
  const Stretch& at = stretch_at(seconds);
  return seconds - at.kept + at.whole;
}

TimeRange KeptClock::whole(TimeRange said) const {
  constexpr double kRounding = 1e-6;
  if (stretches_.empty()) return said;
  const Stretch* first = &stretch_at(said.start);
  const Stretch* last = &stretch_at(std::max(said.end - kRounding, said.start));
  const double before = first->kept_end() - said.start, after = said.end - last->kept;
  // If both parts are within an edge, the longer one decides.
  const bool leaves = first != last && before <= edge_ && (before <= after || after > edge_);
  if (leaves) said.start = (++first)->kept;
  if (first != last && after <= edge_) said.end = (--last)->kept_end();
  return {said.start - first->kept + first->whole, said.end - last->kept + last->whole};
}

std::vector<FrameRange> quiet_windows(const MelSpectrogram& mel, int64_t frames, int64_t longest) {
  std::vector<FrameRange> windows;
  for (int64_t first = 0; first < frames; first = windows.back().end) {
    const bool last = frames - first <= longest;
    windows.push_back({first, last ? frames : quietest(mel, {first, frames}, longest)});
  }
  return windows;
}

}  // namespace veery
