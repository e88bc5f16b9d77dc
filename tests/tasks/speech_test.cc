// Rules for the next token of Whisper, and formats of transcripts.
#include <cmath>
#include <limits>

#include "base/error.h"
#include "base/json.h"
#include "tasks/speech/speech_tokens.h"
#include "tasks/speech/subtitles.h"
#include "text/languages.h"

namespace veery {
namespace {

// Text 0 to 9, special tokens 10 to 15, times 16 to 26.
constexpr int32_t kTime = 16;
constexpr int64_t kVocab = 27;

SpeechTokens tokens() {
  return {.end = 10,
          .start = 11,
          .transcribe = -1,
          .translate = -1,
          .previous = 13,
          .no_speech = 14,
          .no_times = 15,
          .first_time = kTime};
}

std::vector<int32_t> allowed(const SpeechKeys& keys, std::span<const int32_t> said,
                             bool times = true, std::vector<float> logits = {}) {
  if (logits.empty()) logits.assign(kVocab, 0);
  const SpeechTokens own = tokens();
  SpeechRules(own, keys).apply(said, times, logits);
  std::vector<int32_t> found;
  for (int32_t id = 0; id < kVocab; ++id)
    if (std::isfinite(logits[static_cast<size_t>(id)])) found.push_back(id);
  return found;
}

std::vector<int32_t> range(int32_t first, int32_t last) {
  std::vector<int32_t> all;
  for (int32_t id = first; id <= last; ++id) all.push_back(id);
  return all;
}

// Logits with which no time token is forced.
std::vector<float> text_logits() {
  std::vector<float> logits(kVocab, 0);
  logits[3] = 5;
  return logits;
}

TEST(SpeechRules, TheFirstTokenIsATimeAndNotTooLate) {
  EXPECT_EQ(allowed({}, {}), range(kTime, 26));
  EXPECT_EQ(allowed({.first_time = 3}, {}), range(kTime, kTime + 3));
}

TEST(SpeechRules, TextFollowsTheBeginningOfASegment) {
  std::vector<int32_t> text = range(0, 10);
  text.push_back(12);
  const std::vector<int32_t> said = {kTime};
  EXPECT_EQ(allowed({}, said), text);
}

TEST(SpeechRules, AfterTheEndOfASegmentComesATimeOrTheEndToken) {
  const std::vector<int32_t> said = {kTime, 4, kTime + 5};
  const std::vector<int32_t> found = allowed({}, said, true, text_logits());
  EXPECT_EQ(found, range(kTime + 5, 26));  // together more probable than the end
  std::vector<float> logits(kVocab, 0);
  logits[10] = 5;
  std::vector<int32_t> expected = {10, 12};
  for (const int32_t id : range(kTime + 5, 26)) expected.push_back(id);
  EXPECT_EQ(allowed({}, said, true, logits), expected);
}

TEST(SpeechRules, TimesDoNotDecrease) {
  const std::vector<int32_t> said = {kTime + 4, 4};
  std::vector<int32_t> expected = range(0, 10);
  expected.push_back(12);
  for (const int32_t id : range(kTime + 5, 26)) expected.push_back(id);
  EXPECT_EQ(allowed({}, said, true, text_logits()), expected);
  const std::vector<int32_t> at_the_end = {26, 4};
  EXPECT_EQ(allowed({}, at_the_end).back(), 12);
}

TEST(SpeechRules, ATimeFollowsIfTimesTogetherAreMoreProbable) {
  const std::vector<int32_t> said = {kTime, 4};
  std::vector<float> logits(kVocab, 0);
  logits[3] = 2.2F;  // below log(10)
  EXPECT_EQ(allowed({}, said, true, logits), range(kTime + 1, 26));
  logits[3] = 2.4F;  // above
  EXPECT_EQ(allowed({}, said, true, logits).front(), 0);
}

TEST(SpeechRules, WithoutTimesThereAreNone) {
  const std::vector<int32_t> found = allowed({}, {}, false);
  EXPECT_EQ(found.back(), 12);
  EXPECT_EQ(found.front(), 0);
}

TEST(SpeechRules, SomeTokensAreNeverChosenOthersNotAtFirst) {
  const SpeechKeys keys{.suppressed = {2, 5}, .suppressed_first = {0, 10}};
  const std::vector<int32_t> first = allowed(keys, {}, false);
  EXPECT_EQ(first, (std::vector<int32_t>{1, 3, 4, 6, 7, 8, 9, 12}));
  const std::vector<int32_t> said = {1};
  const std::vector<int32_t> then = allowed(keys, said, false);
  EXPECT_EQ(then, (std::vector<int32_t>{0, 1, 3, 4, 6, 7, 8, 9, 10, 12}));
}

TEST(Languages, HaveCodesAndNames) {
  EXPECT_EQ(language_code("english"), "en");
  EXPECT_EQ(language_code("castilian"), "es");
  EXPECT_EQ(language_code("de"), "de");
  SpeechTokens t = tokens();
  t.languages = {{"en", 12}, {"de", 13}};
  EXPECT_EQ(find_language(t, "German").id, 13);
  EXPECT_EQ(find_language(t, "en").id, 12);
  try {
    find_language(t, "klingon");
    FAIL();
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("'klingon', expected one of en, de"),
              std::string::npos);
  }
}

TEST(Compression, OfRepetitionIsHigh) {
  EXPECT_EQ(compression_ratio(""), 1);
  EXPECT_LT(compression_ratio("How much does it cost?"), 1.2);
  std::string again;
  for (int i = 0; i < 30; ++i) again += " and so on";
  EXPECT_GT(compression_ratio(again), 2.4);
}

std::string part(TranscriptForm form, const TranscribedSegment& segment, bool highlight = false) {
  return TranscriptWriter(form, highlight).part(segment);
}

TEST(Subtitles, HaveTheirFormats) {
  const TranscribedSegment segment{.start = 3661.5, .end = 3662.0416, .text = " a --> b\tc"};
  EXPECT_EQ(part(TranscriptForm::kText, segment), "a --> b c\n");
  TranscriptWriter srt(TranscriptForm::kSrt);
  EXPECT_EQ(srt.part(segment), "1\n01:01:01,500 --> 01:01:02,042\na -> b c\n\n");
  EXPECT_EQ(srt.part(segment).substr(0, 2), "2\n");
  EXPECT_EQ(part(TranscriptForm::kVtt, segment), "01:01:01.500 --> 01:01:02.042\na -> b c\n\n");
  EXPECT_EQ(part(TranscriptForm::kTsv, segment), "3661500\t3662042\ta --> b c\n");
  EXPECT_EQ(time_text(62.25, false, '.'), "01:02.250");
  const Transcript transcript{.language = "en", .seconds = 1.5, .segments = {segment}};
  const Json json = parse_json(TranscriptWriter(TranscriptForm::kJson).tail(transcript), "x");
  EXPECT_EQ(json["text"].get<std::string>(), segment.text);
  EXPECT_EQ(json["segments"][0]["start"].get<double>(), 3661.5);
  EXPECT_FALSE(json["segments"][0].contains("words"));
  EXPECT_EQ(transcript_form("srt"), TranscriptForm::kSrt);
  EXPECT_EQ(transcript_form("doc"), std::nullopt);
}

TEST(Subtitles, HaveWords) {
  TranscribedSegment segment{.start = 1, .end = 2.5, .text = " Go on"};
  segment.words = {{.text = " Go", .tokens = {1}, .start = 1, .end = 1.5, .probability = 0.5F},
                   {.text = " on", .tokens = {2}, .start = 2, .end = 2.5, .probability = 0.75F}};
  EXPECT_EQ(part(TranscriptForm::kVtt, segment), "00:01.000 --> 00:02.500\nGo on\n\n");
  EXPECT_EQ(part(TranscriptForm::kVtt, segment, true),
            "00:01.000 --> 00:01.500\n<u>Go</u> on\n\n00:01.500 --> 00:02.000\nGo on\n\n"
            "00:02.000 --> 00:02.500\nGo <u>on</u>\n\n");
  TranscriptWriter srt(TranscriptForm::kSrt, true);
  EXPECT_EQ(srt.part(segment).substr(0, 2), "1\n");
  EXPECT_EQ(srt.part(segment).substr(0, 2), "4\n");
  const Transcript transcript{
      .language = "en", .seconds = 3, .has_words = true, .segments = {segment}};
  const Json json = parse_json(TranscriptWriter(TranscriptForm::kJson).tail(transcript), "x");
  EXPECT_EQ(json["segments"][0]["words"][1],
            (Json{{"word", " on"}, {"start", 2.0}, {"end", 2.5}, {"probability", 0.75}}));
}

}  // namespace
}  // namespace veery
