// Sound files as samples: channels, rates, and what is no sound.
#include "audio/sound.h"

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

// RIFF WAVE, samples by turns of the channels.
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

TEST(Sound, AtItsOwnRateIsWhatTheFileHolds) {
  const std::vector<float> samples = {0, 0.5F, -0.25F, 0.125F, -1};
  Sound sound(wav({}, samples), "x");
  EXPECT_EQ(sound.declared(), 5);
  EXPECT_EQ(read_all(sound), samples);
  EXPECT_EQ(sound.damage(), "");
}

TEST(Sound, ChannelsBecomeTheirMean) {
  Sound sound(wav({.channels = 2}, {0.5F, 0.25F, -0.5F, 0.5F}), "x");
  EXPECT_EQ(read_all(sound), (std::vector<float>{0.375F, 0}));
}

TEST(Sound, AnotherRateIsResampled) {
  for (const int rate : {8000, 22050, 44100, 48000, 96000}) {
    Sound sound(wav({.rate = rate}, tone(440, rate, 2)), "x");
    const std::vector<float> found = read_all(sound), expected = tone(440, 16000, 2);
    EXPECT_NEAR(static_cast<double>(found.size()), 32000, 2) << rate;
    for (size_t i = 500; i < 31500; ++i) ASSERT_NEAR(found[i], expected[i], 2e-3) << rate;
  }
}

TEST(Sound, WhatIsAboveTheNewRateIsGone) {
  Sound sound(wav({.rate = 48000}, tone(15000, 48000, 1)), "x");
  const std::vector<float> found = read_all(sound);
  for (size_t i = 1000; i + 1000 < found.size(); ++i) ASSERT_LT(std::abs(found[i]), 1e-3);
}

TEST(Sound, FilesAndBytesAreTheSame) {
  const test::TemporaryFolder folder;
  const std::string bytes = wav({.rate = 22050}, tone(300, 22050, 0.1));
  folder.write("a b.wav", bytes);
  Sound file(folder.file("a b.wav")), memory(bytes, "x");
  EXPECT_EQ(read_all(file), read_all(memory));
}

TEST(Sound, WithoutSamplesIsEmpty) {
  Sound sound(wav({}, {}), "x");
  EXPECT_TRUE(read_all(sound).empty());
}

TEST(Sound, OfAFileCutShortIsWhatThereIs) {
  const std::string whole = wav({}, tone(300, 16000, 1));
  Sound sound(whole.substr(0, whole.size() / 2), "x");
  EXPECT_NEAR(static_cast<double>(read_all(sound).size()), 8000, 50);
}

TEST(Sound, WhatIsNoneIsRefusedByName) {
  try {
    Sound sound(std::string("no sound at all, only text"), "letter.txt");
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kFormat);
    EXPECT_NE(std::string(error.what()).find("letter.txt"), std::string::npos) << error.what();
  }
  EXPECT_THROW(Sound("/nowhere/x.wav"), Error);
}

TEST(Sound, SamplesThatAreNoNumbersAreRefused) {
  for (const float bad : {std::numeric_limits<float>::quiet_NaN(), 1e30F}) {
    Sound sound(wav({.floats = true}, {0, 0.5F, bad, 0}), "x");
    EXPECT_THROW(read_all(sound), Error);
  }
}

}  // namespace
}  // namespace veery
