// Whisper tiny.en with real weights in f32 (the folder whisper-tiny.en) on speech of espeak-ng,
// against text and times of transformers.
#include <cmath>

#include "support/models.h"
#include "tasks/speech/transcribe.h"

namespace veery {
namespace {

struct Piece {
  double start, end;
  std::string text;
  bool operator==(const Piece&) const = default;
};

void PrintTo(const Piece& piece, std::ostream* out) {
  *out << piece.start << " to " << piece.end << piece.text;
}

const std::vector<std::pair<std::string, std::vector<Piece>>> kClips = {
    {"tone.flac",
     {{0, 2.4, " Please leave a message after the tone."},
      {2.4, 5, " We are open from 9 to 5 on Monday."}}},
    {"cost.flac",
     {{0, 6.56, " How much does it cost? $25.99. Thank you very much. Have a nice day."}}}};

std::vector<Piece> pieces(Transcriber& transcriber, const std::string& clip) {
  Sound sound(test::fixture_path("whisper/" + clip));
  std::vector<Piece> found;
  for (const TranscribedSegment& segment : transcriber.transcribe(sound).segments)
    found.push_back({segment.start, segment.end, segment.text});
  return found;
}

TEST(TranscribeModel, TextAndTimesMatchTransformers) {
  const std::string path = test::model_path("whisper-tiny.en");
  VEERY_NEEDS_MODEL(path);
  for (const bool exact : {false, true}) {
    Transcriber transcriber(path, {.exact = exact});
    for (const auto& [clip, expected] : kClips)
      EXPECT_EQ(pieces(transcriber, clip), expected) << clip << " " << exact;
  }
}

TEST(TranscribeModel, BeamSearchFindsTextAtLeastAsProbable) {
  const std::string path = test::model_path("whisper-tiny.en");
  VEERY_NEEDS_MODEL(path);
  Transcriber transcriber(path, {});
  for (const auto& [clip, expected] : kClips) {
    Sound first(test::fixture_path("whisper/" + clip));
    Sound second(test::fixture_path("whisper/" + clip));
    const Transcript greedy = transcriber.transcribe(first),
                     beams = transcriber.transcribe(second, {.beams = 5});
    ASSERT_FALSE(greedy.segments.empty());
    ASSERT_FALSE(beams.segments.empty());
    EXPECT_GE(beams.segments[0].mean_log_prob, greedy.segments[0].mean_log_prob - 0.02) << clip;
  }
}

// Recorded by tools/oracle/whisper_words.py from OpenAI's code with the same weights in float32.
TEST(TranscribeModel, TimesOfWordsMatchOpenAi) {
  const std::string path = test::model_path("whisper-tiny.en");
  VEERY_NEEDS_MODEL(path);
  const Json known = test::read_fixture("whisper/words.json");
  for (const bool exact : {false, true}) {
    Transcriber transcriber(path, {.exact = exact});
    for (const auto& [clip, expected] : known.items()) {
      Sound sound(test::fixture_path("whisper/" + clip));
      const Transcript found = transcriber.transcribe(sound, {.words = true});
      ASSERT_EQ(found.segments.size(), expected["segments"].size()) << clip;
      for (size_t i = 0; i < found.segments.size(); ++i) {
        const Json& segment = expected["segments"][i];
        const std::vector<SpokenWord>& words = found.segments[i].words;
        ASSERT_EQ(words.size(), segment["words"].size()) << clip;
        for (size_t w = 0; w < words.size(); ++w) {
          const Json& word = segment["words"][w];
          EXPECT_EQ(words[w].text, word[0].get<std::string>());
          EXPECT_NEAR(words[w].start, word[1].get<double>(), 0.021) << clip << words[w].text;
          EXPECT_NEAR(words[w].end, word[2].get<double>(), 0.021) << clip << words[w].text;
          EXPECT_NEAR(words[w].probability, word[3].get<double>(), exact ? 0.001 : 0.02)
              << clip << words[w].text;
        }
        EXPECT_NEAR(found.segments[i].start, segment["start"].get<double>(), 0.021) << clip;
        EXPECT_NEAR(found.segments[i].end, segment["end"].get<double>(), 0.021) << clip;
      }
    }
  }
}

void put(std::string& to, uint32_t value, size_t bytes) {
  for (size_t i = 0; i < bytes; ++i) to += static_cast<char>(value >> (8 * i) & 255U);
}

// Joins clips to one sound of 16 kHz, with `seconds` of silence before each.
std::string joined(const std::vector<std::pair<double, std::string>>& clips) {
  std::vector<float> samples;
  for (const auto& [silence, clip] : clips) {
    samples.resize(samples.size() + static_cast<size_t>(silence * kSoundRate));
    Sound sound(test::fixture_path("whisper/" + clip));
    while (sound.read(samples)) {
    }
  }
  const auto bytes = static_cast<uint32_t>(2 * samples.size());
  std::string file = "RIFF";
  put(file, 36 + bytes, 4);
  file += "WAVEfmt ";
  put(file, 16, 4);
  for (const uint32_t value : {1, 1}) put(file, value, 2);
  for (const uint32_t value : {kSoundRate, 2 * kSoundRate}) put(file, value, 4);
  for (const uint32_t value : {2, 16}) put(file, value, 2);
  file += "data";
  put(file, bytes, 4);
  for (const float x : samples)
    put(file, static_cast<uint32_t>(static_cast<int32_t>(std::lround(x * 32767))), 2);
  return file;
}

TEST(TranscribeModel, VoiceActivityKeepsTheTimes) {
  const std::string path = test::model_path("whisper-tiny.en");
  VEERY_NEEDS_MODEL(path);
  Transcriber transcriber(path, {});
  Sound sound(joined({{20, "tone.flac"}, {40, "cost.flac"}}), "joined");
  const Transcript found = transcriber.transcribe(sound, {.words = true, .voice = VoiceOptions{}});
  ASSERT_FALSE(found.segments.empty());
  EXPECT_NE(found.text().find("Please leave a message after the tone."), std::string::npos);
  EXPECT_NE(found.text().find("Have a nice day."), std::string::npos);
  double last = 0;
  std::vector<SpokenWord> words;
  for (const TranscribedSegment& segment : found.segments) {
    EXPECT_GE(segment.start, last);
    EXPECT_GT(segment.end, segment.start);
    last = segment.start;
    words.insert(words.end(), segment.words.begin(), segment.words.end());
  }
  EXPECT_NEAR(words.front().start, 20, 0.5);
  EXPECT_NEAR(words.back().end, 20 + 5.2 + 40 + 7, 1);
  for (const SpokenWord& word : words)
    EXPECT_TRUE(word.end < 26 || word.start > 64) << word.text << word.start;
}

TEST(TranscribeModel, ABatchOfWindowsHasTheTextOfEach) {
  const std::string path = test::model_path("whisper-tiny.en");
  VEERY_NEEDS_MODEL(path);
  const std::string bytes = joined({{0, "tone.flac"},
                                    {9, "cost.flac"},
                                    {9, "tone.flac"},
                                    {9, "cost.flac"},
                                    {9, "tone.flac"},
                                    {9, "tone.flac"}});
  for (const int32_t beams : {1, 3}) {
    std::vector<std::vector<int32_t>> first;
    for (const int32_t batch : {1, 2, 4}) {
      Transcriber transcriber(path, {}, 5, batch);
      Sound sound(bytes, "joined");
      std::vector<std::vector<int32_t>> tokens;
      for (const TranscribedSegment& segment :
           transcriber.transcribe(sound, {.beams = beams, .batch = batch}).segments)
        tokens.push_back(segment.tokens);
      EXPECT_GT(tokens.size(), 5U);
      if (first.empty()) first = tokens;
      EXPECT_EQ(tokens, first) << beams << " " << batch;
    }
  }
}

}  // namespace
}  // namespace veery
