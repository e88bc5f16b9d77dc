// Times after removal of silence, and windows that end at quiet points.
#include "tasks/speech/window_plan.h"

#include <cmath>

namespace veery {
namespace {

TEST(KeptClock, MapsTimesToTheWholeSound) {
  const std::vector<FrameRange> kept = {{500, 700}, {1000, 1100}, {3000, 3050}};
  const KeptClock clock(kept, 0.2);
  const auto expect = [&](double start, double end, double whole_start, double whole_end) {
    const TimeRange found = clock.whole(TimeRange{start, end});
    EXPECT_NEAR(found.start, whole_start, 1e-9) << start;
    EXPECT_NEAR(found.end, whole_end, 1e-9) << end;
  };
  EXPECT_DOUBLE_EQ(clock.whole(0), 5);
  EXPECT_DOUBLE_EQ(clock.whole(2.25), 10.25);
  expect(0, 1.5, 5, 6.5);
  expect(1, 2, 6, 7);           // ends with its stretch
  expect(2, 3, 10, 11);         // is all of the next one
  expect(1, 2.5, 6, 10.5);      // continues after the removed part
  expect(1, 2.15, 6, 7);        // ends in the edge of the next stretch
  expect(1.85, 2.5, 10, 10.5);  // begins in the edge of the one before
  expect(1.85, 2.1, 6.85, 7);   // in both, mostly in the first
  expect(1.95, 2.1, 10, 10.1);
  expect(1.9, 3.1, 10, 11);  // all of the one between
  expect(3.25, 3.5, 30.25, 30.5);
  const KeptClock all;
  EXPECT_EQ(all.whole(12.25), 12.25);
  EXPECT_EQ(all.whole(TimeRange{3, 12.25}).end, 12.25);
}

// Loud except for half a second from each of `quiet` on.
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

TEST(QuietWindows, AreNoLongerThanAWindowOfTheModel) {
  for (const FrameRange& window : windows(43, {})) {
    EXPECT_LE(window.end - window.first, 1000);
    EXPECT_GT(window.end, window.first);
  }
}

}  // namespace
}  // namespace veery
