// Voice activity detection on speech (espeak-ng) between silence and noise, and on sounds without
// speech.
#include "audio/voice_activity.h"

#include <cmath>
#include <numbers>

#include "audio/sound.h"

namespace veery {
namespace {

std::vector<float> clip(const std::string& name) {
  Sound sound(VEERY_SOURCE_DIR "/tests/fixtures/whisper/" + name);
  std::vector<float> samples;
  while (sound.read(samples)) {
  }
  return samples;
}

std::vector<float> silence(double seconds) {
  return std::vector<float>(static_cast<size_t>(seconds * kSoundRate));
}

// Returns white noise with root mean square `level`.
std::vector<float> noise(double seconds, double level) {
  uint32_t state = 9;
  std::vector<float> samples = silence(seconds);
  for (float& x : samples) {
    double sum = 0;
    for (int i = 0; i < 12; ++i) {
      state = state * 1664525U + 1013904223U;
      sum += static_cast<double>(state >> 8U) / (1U << 24U) - 0.5;
    }
    x = static_cast<float>(level * sum);
  }
  return samples;
}

std::vector<FrameRange> speech(const std::vector<float>& samples,
                               const VoiceOptions& options = {}) {
  ThreadPool pool(2);
  MelSpectrogram mel(80, pool);
  mel.push(samples);
  mel.finish(3000);
  return find_speech(mel, mel.samples() / kMelStep, options);
}

void append(std::vector<float>& to, const std::vector<float>& more) {
  to.insert(to.end(), more.begin(), more.end());
}

TEST(VoiceActivity, SilenceNoiseAndTonesAreNotSpeech) {
  EXPECT_TRUE(speech(silence(5)).empty());
  for (const double level : {1e-4, 1e-3, 1e-2, 0.1})
    EXPECT_TRUE(speech(noise(20, level)).empty()) << level;
  std::vector<float> tone = noise(20, 1e-4);
  for (size_t i = 0; i < tone.size(); ++i)
    tone[i] += static_cast<float>(
        0.3 * std::sin(2 * std::numbers::pi * 440 * static_cast<double>(i) / kSoundRate));
  EXPECT_TRUE(speech(tone).empty());
  EXPECT_TRUE(speech({}).empty());
}

TEST(VoiceActivity, AClickIsNotSpeech) {
  std::vector<float> samples = noise(10, 1e-4);
  for (size_t i = 80000; i < 80800; ++i) samples[i] = i % 2 == 0 ? 0.5F : -0.5F;
  EXPECT_TRUE(speech(samples).empty());
}

// Silence (5 s), a clip, silence (7 s), another clip, silence (4 s).
struct Scene {
  std::vector<float> samples = silence(5);
  double first_end = 0, second = 0, second_end = 0;

  Scene() {
    append(samples, clip("tone.flac"));
    first_end = static_cast<double>(samples.size()) / kSoundRate;
    append(samples, silence(7));
    second = first_end + 7;
    append(samples, clip("cost.flac"));
    second_end = static_cast<double>(samples.size()) / kSoundRate;
    append(samples, silence(4));
  }
};

TEST(VoiceActivity, SpeechIsFoundInSilenceAndNoise) {
  const Scene scene;
  for (const double level : {0.0, 1e-4, 1e-3, 1e-2}) {
    std::vector<float> samples = scene.samples;
    if (level > 0) {
      const std::vector<float> added = noise(60, level);
      for (size_t i = 0; i < samples.size(); ++i) samples[i] += added[i];
    }
    const std::vector<FrameRange> found = speech(samples);
    ASSERT_EQ(found.size(), 2U) << level;
    // Clips begin and end with short silences.
    EXPECT_NEAR(static_cast<double>(found[0].first) / 100, 5 - 0.4, 0.25) << level;
    EXPECT_NEAR(static_cast<double>(found[0].end) / 100, scene.first_end, 0.5) << level;
    EXPECT_NEAR(static_cast<double>(found[1].first) / 100, scene.second - 0.4, 0.25) << level;
    EXPECT_NEAR(static_cast<double>(found[1].end) / 100, scene.second_end, 0.6) << level;
  }
}

TEST(VoiceActivity, AppliesItsOptions) {
  const Scene scene;
  EXPECT_EQ(speech(scene.samples, {.least_silence = 9}).size(), 1U);
  EXPECT_TRUE(speech(scene.samples, {.least_speech = 20}).empty());
  EXPECT_TRUE(speech(scene.samples, {.threshold = 1e12}).empty());
  const std::vector<FrameRange> narrow = speech(scene.samples, {.pad = 0}),
                                wide = speech(scene.samples, {.pad = 1});
  ASSERT_EQ(narrow.size(), 2U);
  EXPECT_EQ(narrow[0].first, wide[0].first + 100);
  EXPECT_EQ(narrow[0].end, wide[0].end - 100);
}

TEST(LogMel, KeepsSelectedFrames) {
  ThreadPool pool(1);
  MelSpectrogram mel(80, pool);
  mel.push(noise(3, 0.1));
  mel.finish(0);
  const std::vector<float> before(mel.frame(120).begin(), mel.frame(120).end());
  const std::vector<FrameRange> ranges = {{10, 20}, {115, 130}};
  mel.keep(ranges, 40);
  EXPECT_EQ(mel.frames(), 40);
  EXPECT_EQ(std::vector<float>(mel.frame(15).begin(), mel.frame(15).end()), before);
  EXPECT_EQ(mel.frame(30)[0], -10);
}

}  // namespace
}  // namespace veery
