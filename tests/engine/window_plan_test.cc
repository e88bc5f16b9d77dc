// Clocks of sounds of which stretches were kept, and windows that end where it is quiet.
#include "engine/speech/window_plan.h"

#include <cmath>

namespace veery {
namespace {

TEST(KeptClock, GoesBackToTheWholeSound) {
  const std::vector<FrameRange> kept = {{500, 700}, {1000, 1100}, {3000, 3050}};
  const KeptClock clock(kept);
  EXPECT_DOUBLE_EQ(clock.start_of(0), 5);
  EXPECT_DOUBLE_EQ(clock.end_of(0), 5);
  EXPECT_DOUBLE_EQ(clock.start_of(1.5), 6.5);
  EXPECT_DOUBLE_EQ(clock.end_of(1.5), 6.5);
  EXPECT_DOUBLE_EQ(clock.start_of(2), 10);
  EXPECT_DOUBLE_EQ(clock.end_of(2), 7);
  EXPECT_DOUBLE_EQ(clock.end_of(3), 11);
  EXPECT_DOUBLE_EQ(clock.start_of(3.25), 30.25);
  EXPECT_DOUBLE_EQ(clock.end_of(3.5), 30.5);
  const KeptClock all;
  EXPECT_EQ(all.start_of(12.25), 12.25);
  EXPECT_EQ(all.end_of(12.25), 12.25);
}

// Loud, but for half a second from each of `quiet` on.
std::vector<FrameRange> windows(double seconds, const std::vector<double>& quiet) {
  ThreadPool pool(1);
  MelSpectrogram mel(20, pool);
  std::vector<float> samples(static_cast<size_t>(seconds * 16000));
  for (size_t i = 0; i < samples.size(); ++i) {
    const double at = static_cast<double>(i) / 16000;
    bool loud = true;
    for (const double begin : quiet) loud = loud && (at < begin || at > begin + 0.5);
    samples[i] = static_cast<float>((loud ? 0.5 : 1e-4) * std::sin(0.3 * static_cast<double>(i)));
  }
  mel.push(samples);
  mel.finish(0);
  return quiet_windows(mel, mel.frames(), 1000);
}

TEST(QuietWindows, EndInPausesAndCoverAll) {
  const std::vector<FrameRange> found = windows(25, {3, 8, 12, 16, 20});
  ASSERT_EQ(found.size(), 3U);
  EXPECT_EQ(found[0].first, 0);
  EXPECT_NEAR(static_cast<double>(found[0].end), 825, 15);
  EXPECT_NEAR(static_cast<double>(found[1].end), 1625, 15);
  EXPECT_EQ(found[2].end, 2500);
  for (size_t i = 1; i < found.size(); ++i) EXPECT_EQ(found[i].first, found[i - 1].end);
  EXPECT_EQ(windows(7, {}).size(), 1U);
}

TEST(QuietWindows, AreNoLongerThanTheModelHears) {
  for (const FrameRange& window : windows(43, {})) {
    EXPECT_LE(window.end - window.first, 1000);
    EXPECT_GT(window.end, window.first);
  }
}

}  // namespace
}  // namespace veery
