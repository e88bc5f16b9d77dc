// Log-mel spectrograms of Whisper compared with transformers (tools/oracle/whisper_mel.py).
#include "audio/log_mel.h"

#include <cmath>
#include <numbers>

#include "audio/sound.h"
#include "base/mapped_file.h"

namespace veery {
namespace {

std::vector<float> sound() {
  uint32_t state = 12345;
  std::vector<float> samples;
  for (int i = 0; i < 24000; ++i) {
    state = (state * 1103515245U + 12345U) % (1U << 31U);
    const double noise = (state >> 16U) / 16384.0 - 1;
    const double swell = i % 8000 / 8000.0;
    const double tones = std::sin(2 * std::numbers::pi * 440 * i / 16000) +
                         0.01 * std::sin(2 * std::numbers::pi * 5000 * i / 16000);
    samples.push_back(i < 16000 ? static_cast<float>(0.1 * noise * swell + 0.3 * tones) : 0);
  }
  return samples;
}

std::vector<float> features(int bands, std::span<const float> samples, size_t piece,
                            int64_t frames) {
  ThreadPool pool(2);
  MelSpectrogram mel(bands, pool);
  for (size_t at = 0; at < samples.size(); at += piece)
    mel.push(samples.subspan(at, std::min(piece, samples.size() - at)));
  mel.finish(3);
  std::vector<float> out(static_cast<size_t>(frames * bands));
  mel.window(0, frames, out);
  return out;
}

std::vector<float> fixture(int bands) {
  const MappedFile file(VEERY_SOURCE_DIR "/tests/fixtures/whisper/mel.f32");
  const auto* values = reinterpret_cast<const float*>(file.bytes().data());
  const size_t first = bands == 80 ? 0 : 150 * 80;
  return {values + first, values + first + 150 * bands};
}

TEST(LogMel, MatchesTransformers) {
  for (const int bands : {80, 128}) {
    const std::vector<float> expected = fixture(bands);
    const std::vector<float> found = features(bands, sound(), 24000, 150);
    ASSERT_EQ(found.size(), expected.size());
    double worst = 0;
    for (size_t i = 0; i < found.size(); ++i)
      worst = std::max<double>(worst, std::abs(found[i] - expected[i]));
    EXPECT_LT(worst, 5e-5) << bands;
  }
}

// Speech synthesised by espeak-ng, every 16th frame.
TEST(LogMel, MatchesTransformersForSpeech) {
  const MappedFile file(VEERY_SOURCE_DIR "/tests/fixtures/whisper/speech_mel.f32");
  const auto* expected = reinterpret_cast<const float*>(file.bytes().data());
  size_t compared = 0;
  for (const char* clip : {"tone.flac", "cost.flac"}) {
    Sound speech(std::string(VEERY_SOURCE_DIR "/tests/fixtures/whisper/") + clip);
    std::vector<float> samples;
    while (speech.read(samples)) {
    }
    const int64_t frames = std::ssize(samples) / kMelStep;
    for (const int bands : {80, 128}) {
      const std::vector<float> found = features(bands, samples, 5000, frames);
      double worst = 0;
      for (int64_t t = 0; t < frames; t += 16)
        for (int64_t i = 0; i < bands; ++i)
          worst = std::max<double>(
              worst, std::abs(found[static_cast<size_t>(t * bands + i)] - expected[compared++]));
      EXPECT_LT(worst, 5e-5) << clip << " " << bands;
    }
  }
  EXPECT_EQ(compared * sizeof(float), file.bytes().size());
}

TEST(LogMel, DoesNotDependOnHowSamplesAreSplit) {
  const std::vector<float> whole = features(80, sound(), 24000, 150);
  for (const size_t piece : {1, 159, 401, 7777})
    EXPECT_EQ(features(80, sound(), piece, 150), whole) << piece;
}

TEST(LogMel, WindowIsZeroAfterTheEnd) {
  const std::vector<float> found = features(80, sound(), 24000, 152);
  for (size_t i = 150 * 80; i < found.size(); ++i) EXPECT_EQ(found[i], 0);
}

TEST(LogMel, PadsWithSilence) {
  ThreadPool pool(1);
  MelSpectrogram mel(80, pool);
  mel.push(std::vector<float>{0.5F});
  mel.finish(30);
  EXPECT_EQ(mel.frames(), 30);
  EXPECT_EQ(mel.samples(), 1);
  std::vector<float> out(30 * 80);
  mel.window(0, 30, out);
  for (const float x : out) EXPECT_TRUE(std::isfinite(x));
  EXPECT_LT(mel.level(29), mel.level(0));
}

}  // namespace
}  // namespace veery
