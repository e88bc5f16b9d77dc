// Decoding of sound files: channels, sample rates, damaged and invalid files.
#include "audio/sound.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <numbers>

#include "base/error.h"
#include "support/temporary_folder.h"

namespace veery {
namespace {

struct Wav {
  int rate = 16000, channels = 1;
  bool floats = false;
};

template <typename T>
void put(std::string& to, T value) {
  to.append(reinterpret_cast<const char*>(&value), sizeof value);
}

// Returns a RIFF WAVE file; samples are interleaved.
std::string wav(const Wav& form, const std::vector<float>& samples) {
  const auto width = static_cast<uint32_t>(form.floats ? 4 : 2);
  const auto bytes = static_cast<uint32_t>(samples.size()) * width;
  const auto frame = static_cast<uint32_t>(form.channels) * width;
  std::string file = "RIFF";
  put<uint32_t>(file, 36 + bytes);
  file += "WAVEfmt ";
  put<uint32_t>(file, 16);
  put<uint16_t>(file, form.floats ? 3 : 1);
  put(file, static_cast<uint16_t>(form.channels));
  put(file, static_cast<uint32_t>(form.rate));
  put(file, static_cast<uint32_t>(form.rate) * frame);
  put(file, static_cast<uint16_t>(frame));
  put(file, static_cast<uint16_t>(8 * width));
  file += "data";
  put(file, bytes);
  for (const float x : samples) {
    if (form.floats)
      put(file, x);
    else
      put(file, static_cast<int16_t>(std::lround(x * 32768)));
  }
  return file;
}

std::vector<float> read_all(Sound& sound) {
  std::vector<float> samples;
  while (sound.read(samples)) {
  }
  return samples;
}

std::vector<float> tone(double hertz, int rate, double seconds) {
  std::vector<float> samples;
  for (int i = 0; i < rate * seconds; ++i)
    samples.push_back(static_cast<float>(0.5 * std::sin(2 * std::numbers::pi * hertz * i / rate)));
  return samples;
}

TEST(Sound, WithoutResamplingSamplesEqualTheFile) {
  const std::vector<float> samples = {0, 0.5F, -0.25F, 0.125F, -1};
  Sound sound(wav({}, samples), "x");
  EXPECT_EQ(sound.declared(), 5);
  EXPECT_EQ(read_all(sound), samples);
  EXPECT_EQ(sound.damage(), "");
}

TEST(Sound, ChannelsAreAveraged) {
  Sound sound(wav({.channels = 2}, {0.5F, 0.25F, -0.5F, 0.5F}), "x");
  EXPECT_EQ(read_all(sound), (std::vector<float>{0.375F, 0}));
}

TEST(Sound, OtherRatesAreResampled) {
  for (const int rate : {8000, 22050, 44100, 48000, 96000}) {
    Sound sound(wav({.rate = rate}, tone(440, rate, 2)), "x");
    const std::vector<float> found = read_all(sound), expected = tone(440, 16000, 2);
    EXPECT_NEAR(static_cast<double>(found.size()), 32000, 2) << rate;
    for (size_t i = 500; i < 31500; ++i) ASSERT_NEAR(found[i], expected[i], 2e-3) << rate;
  }
}

TEST(Sound, ResamplingRemovesAliases) {
  Sound sound(wav({.rate = 48000}, tone(15000, 48000, 1)), "x");
  const std::vector<float> found = read_all(sound);
  for (size_t i = 1000; i + 1000 < found.size(); ++i) ASSERT_LT(std::abs(found[i]), 1e-3);
}

TEST(Sound, FilesAndBuffersGiveEqualSamples) {
  const test::TemporaryFolder folder;
  const std::string bytes = wav({.rate = 22050}, tone(300, 22050, 0.1));
  folder.write("a b.wav", bytes);
  Sound file(folder.file("a b.wav")), memory(bytes, "x");
  EXPECT_EQ(read_all(file), read_all(memory));
}

TEST(Sound, AFileWithoutSamplesIsEmpty) {
  Sound sound(wav({}, {}), "x");
  EXPECT_TRUE(read_all(sound).empty());
}

TEST(Sound, ATruncatedFileGivesItsSamples) {
  const std::string whole = wav({}, tone(300, 16000, 1));
  Sound sound(whole.substr(0, whole.size() / 2), "x");
  EXPECT_NEAR(static_cast<double>(read_all(sound).size()), 8000, 50);
}

/// 0.7 s of a 440 Hz tone at 44.1 kHz, stereo, with an Info header (LAME 3.100).
std::string mp3() {
  std::ifstream file(VEERY_SOURCE_DIR "/tests/fixtures/sound/tone.mp3", std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

/// Samples, Sound::damage() or the error message, and the output on standard error.
struct Decoded {
  std::vector<float> samples;
  std::string damage, noise;
};
Decoded decoded(const std::string& bytes) {
  testing::internal::CaptureStderr();
  Decoded out;
  try {
    Sound sound(bytes, "talk.mp3");
    out.samples = read_all(sound);
    out.damage = sound.damage();
  } catch (const Error& error) {
    out.damage = error.what();
  }
  out.noise = testing::internal::GetCapturedStderr();
  return out;
}

TEST(Sound, DecodesMp3) {
  const Decoded out = decoded(mp3());
  const std::vector<float> expected = tone(440, 16000, 0.7);
  ASSERT_EQ(out.samples.size(), expected.size());
  for (size_t i = 500; i + 500 < expected.size(); ++i)
    ASSERT_NEAR(out.samples[i], expected[i], 0.02);
  EXPECT_EQ(out.damage, "");
  EXPECT_EQ(out.noise, "");
}

TEST(Sound, IgnoresMp3Tags) {
  const std::string tag("ID3\4\0\0\0\0\1\x44", 10);
  const Decoded whole = decoded(mp3());
  const std::string end = "TAG" + std::string(125, 'x');
  for (const std::string& bytes : {tag + std::string(196, 'x') + mp3(), mp3() + end,
                                   tag + std::string(196, '\0') + mp3() + end}) {
    const Decoded tagged = decoded(bytes);
    EXPECT_EQ(tagged.samples, whole.samples);
    EXPECT_EQ(tagged.damage, "");
  }
}

TEST(Sound, DamagedMp3GivesItsSamplesAndOneMessage) {
  const std::string whole = mp3();
  const size_t half = whole.size() / 2;
  std::string holed = whole, blank = whole;
  for (size_t i = half; i < half + 800; ++i) holed[i] = static_cast<char>(i * i % 251);
  std::fill(blank.begin() + static_cast<std::ptrdiff_t>(half), blank.end(), '\0');
  for (const auto& [bytes, expected] :
       {std::pair(whole.substr(0, half), "s, but its header declares 0.7 s"),
        std::pair(holed, "bytes do not belong to an MPEG frame"),
        std::pair(blank, "s, but its header declares 0.7 s")}) {
    const Decoded out = decoded(bytes);
    EXPECT_GT(out.samples.size(), 3000U);
    EXPECT_TRUE(out.damage.starts_with("talk.mp3: ")) << out.damage;
    EXPECT_NE(out.damage.find(expected), std::string::npos) << out.damage;
    EXPECT_EQ(out.damage.find('\n'), std::string::npos);
    EXPECT_EQ(out.noise, "");
  }
}

TEST(Sound, InvalidMp3IsRejectedWithOneMessage) {
  std::string bytes;
  for (uint32_t i = 1; bytes.size() < 5000; i = i * 1664525 + 1013904223)
    bytes += static_cast<char>(i >> 24);
  for (const std::string& begin :
       {std::string("ID3\x03"), std::string("\xFF\xFB\x90\x00", 4), mp3().substr(0, 300)}) {
    const Decoded out = decoded(begin.size() > 4 ? begin : begin + bytes);
    EXPECT_EQ(out.damage,
              "talk.mp3: not a sound file: it begins like MP3, but has no complete frame");
    EXPECT_EQ(out.noise, "");
  }
}

TEST(Sound, ErrorsNameAFileThatIsNotASoundFile) {
  try {
    Sound sound(std::string("no sound at all, only text"), "letter.txt");
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kFormat);
    EXPECT_NE(std::string(error.what()).find("letter.txt"), std::string::npos) << error.what();
  }
  EXPECT_THROW(Sound("/nowhere/x.wav"), Error);
}

TEST(Sound, RejectsSamplesThatAreNotNumbers) {
  for (const float bad : {std::numeric_limits<float>::quiet_NaN(), 1e30F}) {
    Sound sound(wav({.floats = true}, {0, 0.5F, bad, 0}), "x");
    EXPECT_THROW(read_all(sound), Error);
  }
}

}  // namespace
}  // namespace veery
