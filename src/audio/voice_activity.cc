#include "audio/voice_activity.h"

#include <algorithm>
#include <cmath>
#include <deque>

#include "base/error.h"

namespace veery {
namespace {

constexpr int64_t kSmooth = 8;     // frames on each side for the smoothed power
constexpr int64_t kReach = 150;    // frames on each side for the minimum
constexpr float kBias = 1.5F;      // compensates that the minimum of means is below the mean
constexpr float kFloor = 1e-9F;    // smallest noise power, a tenth of a bit at 16 bits
constexpr float kFollows = 0.98F;  // weight of the previous frame in the a-priori SNR

// Returns moving averages over [t - kSmooth, t + kSmooth], clipped to the existing frames.
std::vector<float> smoothed(const std::vector<float>& power) {
  const int64_t count = std::ssize(power);
  std::vector<float> means(power.size());
  double sum = 0;
  for (int64_t t = 0; t < std::min(kSmooth, count); ++t) sum += power[static_cast<size_t>(t)];
  for (int64_t t = 0; t < count; ++t) {
    const int64_t first = std::max<int64_t>(t - kSmooth, 0),
                  last = std::min(t + kSmooth, count - 1);
    if (t + kSmooth < count) sum += power[static_cast<size_t>(last)];
    means[static_cast<size_t>(t)] =
        std::max(static_cast<float>(sum / static_cast<double>(last + 1 - first)), 0.0F);
    if (t >= kSmooth) sum -= power[static_cast<size_t>(first)];
  }
  return means;
}

// Returns the moving minimum over [t - kReach, t + kReach].
std::vector<float> least_around(const std::vector<float>& values) {
  const int64_t count = std::ssize(values);
  std::vector<float> least(values.size());
  std::deque<int64_t> rising;  // indices of values that may become the minimum
  int64_t next = 0;
  for (int64_t t = 0; t < count; ++t) {
    for (; next < count && next <= t + kReach; ++next) {
      while (!rising.empty() &&
             values[static_cast<size_t>(rising.back())] >= values[static_cast<size_t>(next)])
        rising.pop_back();
      rising.push_back(next);
    }
    if (rising.front() < t - kReach) rising.pop_front();
    least[static_cast<size_t>(t)] = values[static_cast<size_t>(rising.front())];
  }
  return least;
}

// Adds the log likelihood ratios of one band.
void add_band(const std::vector<float>& power, std::vector<double>& evidence) {
  const std::vector<float> noise = least_around(smoothed(power));
  float speech = 0;  // power of the previous frame without the noise
  for (size_t t = 0; t < power.size(); ++t) {
    const float level = std::max(noise[t] * kBias, kFloor);
    const float after = power[t] / level;
    const float before = kFollows * speech / level + (1 - kFollows) * std::max(after - 1, 0.0F);
    const float gain = before / (1 + before);
    evidence[t] += after * gain - std::log1p(before);
    speech = gain * gain * power[t];
  }
}

int64_t frames_of(double seconds) { return std::llround(seconds * kMelFramesPerSecond); }

/// A range of frames and the number of speech frames in it.
struct Stretch {
  FrameRange range;
  int64_t spoken = 0;
};

// Merges stretches with a gap of fewer than `gap` frames.
std::vector<Stretch> joined(const std::vector<Stretch>& stretches, int64_t gap) {
  std::vector<Stretch> all;
  for (const Stretch& next : stretches) {
    if (all.empty() || next.range.first - all.back().range.end >= gap) {
      all.push_back(next);
      continue;
    }
    all.back().range.end = std::max(all.back().range.end, next.range.end);
    all.back().spoken += next.spoken;
  }
  return all;
}

}  // namespace

std::vector<float> speech_evidence(const MelSpectrogram& mel, int64_t frames) {
  VEERY_CHECK(frames >= 0 && frames <= mel.frames());
  std::vector<double> sums(static_cast<size_t>(frames));
  std::vector<float> power(sums.size());
  for (int band = 0; band < mel.bands(); ++band) {
    for (size_t t = 0; t < power.size(); ++t)
      power[t] = std::pow(10.0F, mel.frame(static_cast<int64_t>(t))[static_cast<size_t>(band)]);
    add_band(power, sums);
  }
  std::vector<float> evidence;
  evidence.reserve(sums.size());
  for (const double sum : sums) evidence.push_back(static_cast<float>(sum / mel.bands()));
  return evidence;
}

std::vector<FrameRange> find_speech(const MelSpectrogram& mel, int64_t frames,
                                    const VoiceOptions& options) {
  const std::vector<float> evidence = speech_evidence(mel, frames);
  std::vector<Stretch> found;
  for (int64_t t = 0; t < frames; ++t)
    if (evidence[static_cast<size_t>(t)] > options.threshold) found.push_back({{t, t + 1}, 1});
  found = joined(found, std::max<int64_t>(frames_of(options.least_silence), 1));
  std::erase_if(found, [&](const Stretch& stretch) {
    return stretch.spoken < frames_of(options.least_speech);
  });
  for (Stretch& stretch : found) {
    stretch.range.first = std::max<int64_t>(stretch.range.first - frames_of(options.pad), 0);
    stretch.range.end = std::min(stretch.range.end + frames_of(options.pad), frames);
  }
  std::vector<FrameRange> ranges;
  for (const Stretch& stretch : joined(found, 1)) ranges.push_back(stretch.range);
  return ranges;
}

}  // namespace veery
