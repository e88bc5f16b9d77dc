// Words and their times: alignment against functions of OpenAI's package
// (tools/oracle/whisper_alignment.py), and the rules for words by hand.
#include "tasks/speech/words.h"

#include <cmath>

#include "base/error.h"
#include "support/models.h"
#include "tasks/speech/alignment.h"
#include "tasks/speech/word_aligner.h"

namespace veery {
namespace {

/// A tokenizer whose tokens are the texts of a list.
class ListTokenizer : public Tokenizer {
 public:
  explicit ListTokenizer(std::vector<std::string> pieces) : pieces_(std::move(pieces)) {}
  std::string piece(int32_t id, bool) const override { return pieces_[static_cast<size_t>(id)]; }
  std::string decode(const std::vector<int32_t>&, bool) const override { return {}; }
  std::optional<int32_t> find(std::string_view) const override { return std::nullopt; }
  std::string token(int32_t id) const override { return piece(id, true); }

 private:
  std::vector<int32_t> encode_alone(std::string_view, const EncodeOptions&) const override {
    return {};
  }
  std::vector<std::string> pieces_;
};

std::vector<std::string> texts(std::span<const SpokenWord> words) {
  std::vector<std::string> all;
  for (const SpokenWord& word : words) all.push_back(word.text);
  return all;
}

std::vector<SpokenWord> split(const std::vector<std::string>& pieces, bool characters = false) {
  std::vector<int32_t> ids;
  for (size_t i = 0; i < pieces.size(); ++i) ids.push_back(static_cast<int32_t>(i));
  return split_words(ListTokenizer(pieces), ids, characters);
}

using Texts = std::vector<std::string>;

TEST(Words, BeginAtSpacesAndSigns) {
  const std::vector<SpokenWord> words =
      split({" Cap", "tain", " said", ",", "\xE2\x80", "\x9C", "go"});
  EXPECT_EQ(texts(words), (Texts{" Captain", " said", ",“go"}));
  EXPECT_EQ(words[0].tokens, (std::vector<int32_t>{0, 1}));
  EXPECT_EQ(words[2].tokens, (std::vector<int32_t>{3, 4, 5, 6}));
  EXPECT_EQ(texts(split({"a", "..."})), (Texts{"a..."}));
  EXPECT_TRUE(split({}).empty());
}

TEST(Words, AreCharactersInLanguagesWithoutSpaces) {
  EXPECT_EQ(texts(split({"\xE4\xBD", "\xA0", "好", "\xE4", "\xB8\x96界"}, true)),
            (Texts{"你", "好", "世界"}));
  // Bytes that never form a character are a word.
  EXPECT_EQ(texts(split({"\xE4\xBD", "a", "\xE4"}, true)), (Texts{"\uFFFD", "a", "\uFFFD"}));
  EXPECT_TRUE(has_no_spaces("ja"));
  EXPECT_FALSE(has_no_spaces("en"));
}

TEST(Words, IncludePunctuation) {
  std::vector<SpokenWord> words = split({" He", " \"", "went", ".", "\"", " (", " so", ")", "!"});
  EXPECT_EQ(words.size(), 8U);
  merge_punctuation(words);
  EXPECT_EQ(texts(words), (Texts{" He", " \"went.\"", " ( so)!"}));
  EXPECT_EQ(words[1].tokens, (std::vector<int32_t>{1, 2, 3, 4}));
}

SpokenWord word(const std::string& text, double start, double end) {
  return {.text = text, .tokens = {1}, .start = start, .end = end};
}

TEST(Words, MedianLengthIgnoresWordsWithoutDuration) {
  const std::vector<SpokenWord> words = {word("a", 0, 0.2), word("b", 0.2, 0.2), word("c", 1, 1.4)};
  EXPECT_NEAR(word_lengths(words).median, 0.3, 1e-12);
  const std::vector<SpokenWord> slow = {word("a", 0, 3)};
  EXPECT_NEAR(word_lengths(slow).median, 0.7, 1e-12);
  EXPECT_EQ(word_lengths({}).median, 0);
}

TEST(Words, AreShortenedAtPausesBetweenSentences) {
  std::vector<SpokenWord> words = {word(" go", 0, 0.3), word(".", 0.3, 2), word(" We", 2, 4),
                                   word(" are", 4, 8)};
  shorten_at_sentences(words, {.median = 0.2});
  EXPECT_NEAR(words[1].end, 0.7, 1e-12);
  EXPECT_NEAR(words[2].start, 3.6, 1e-12);
  EXPECT_EQ(words[3].length(), 4);  // neither
}

TEST(Words, FitTheirSegment) {
  // After a pause the first word is limited.
  std::vector<SpokenWord> words = {word(" a", 10, 12), word(" b", 12, 12.2)};
  double start = 11.5, end = 12.2;
  fit_segment(words, {.median = 0.2}, 5, start, end);
  EXPECT_NEAR(words[0].start, 11.6, 1e-12);
  EXPECT_NEAR(start, 11.6, 1e-12);
  // The times of the segment are used if a word exceeds them by far.
  words = {word(" a", 1, 2.9), word(" b", 2.9, 6)};
  start = 2.5, end = 3.2;
  fit_segment(words, {.median = 0.7}, 2.5, start, end);
  EXPECT_NEAR(words[0].start, 2.2, 1e-12);
  EXPECT_NEAR(words[1].end, 3.6, 1e-12);
  EXPECT_EQ(start, 2.5);
  EXPECT_EQ(end, 3.2);
}

/// Finds the best path through a matrix by trying all.
struct Search {
  std::vector<float> scores;
  int64_t tokens, positions;
  double best = -1e30;
  std::vector<int32_t> starts, best_starts;

  void go(int64_t t, int64_t p, double sum) {
    if (t >= tokens || p >= positions) return;
    const bool first = t == std::ssize(starts);
    if (first) starts.push_back(static_cast<int32_t>(p));
    sum += scores[static_cast<size_t>(t * positions + p)];
    if (t == tokens - 1 && p == positions - 1 && sum > best) best = sum, best_starts = starts;
    go(t + 1, p + 1, sum);
    go(t + 1, p, sum);
    go(t, p + 1, sum);
    if (first) starts.pop_back();
  }
};

TEST(Alignment, FollowsTheBestPath) {
  uint32_t state = 1;
  for (const auto& [tokens, positions] : {std::pair<int64_t, int64_t>{4, 7}, {6, 3}, {1, 5}})
    for (const float offset : {0.0F, -0.5F, -1.0F}) {
      Search search{.scores = {}, .tokens = tokens, .positions = positions};
      for (int64_t i = 0; i < tokens * positions; ++i) {
        state = state * 1664525U + 1013904223U;
        search.scores.push_back(static_cast<float>(state >> 16U) / 65536 + offset);
      }
      search.go(0, 0, 0);
      EXPECT_EQ(token_starts(search.scores, tokens, positions), search.best_starts)
          << tokens << " " << offset;
    }
}

TEST(Alignment, MatchesOpenAi) {
  const Json known = test::read_fixture("whisper/a/alignment.json");
  SpeechKeys keys;
  Model model(
      test::fixture_path("whisper/a"),
      {.threads = 2, .exact = true, .entry = [&](ModelFile& file, const TransformerConfig& c) {
         keys = read_speech_keys(file, c);
         return transcribe_entry(file, c);
       }});
  const SpeechTokens tokens = find_speech_tokens(model.tokenizer(), keys, model.config());
  Session session(model);
  const int32_t sequence = session.open();
  std::vector<float> features(
      static_cast<size_t>(2 * model.config().source.positions * model.config().source.bands));
  for (size_t i = 0; i < features.size(); ++i)
    features[i] = static_cast<float>(i * 7919 % 1000) / 500 - 1;
  session.encode(sequence, features);
  WordAligner aligner(session, tokens, keys);
  const auto text = known["text"].get<std::vector<int32_t>>();
  const auto starts = known["starts"].get<std::vector<int32_t>>();
  const auto probabilities = known["probabilities"].get<std::vector<double>>();
  for (int round = 0; round < 2; ++round) {  // the first leaves no state
    const std::vector<SpokenWord> words =
        aligner.align(sequence, known["start"].get<std::vector<int32_t>>(), text,
                      known["positions"].get<int64_t>(), true);
    size_t token = 0;
    for (const SpokenWord& word : words) {
      EXPECT_NEAR(word.start, 0.02 * starts[token], 1e-9) << token;
      double sum = 0;
      for (size_t i = 0; i < word.tokens.size(); ++i) sum += probabilities[token + i];
      EXPECT_NEAR(word.probability, sum / static_cast<double>(word.tokens.size()), 1e-5) << token;
      token += word.tokens.size();
      EXPECT_NEAR(word.end, 0.02 * starts[token], 1e-9) << token;
    }
    EXPECT_EQ(token, text.size());
    EXPECT_GT(words.size(), text.size() / 2);
    EXPECT_EQ(session.position(sequence), 0);
  }
}

TEST(Alignment, NeedsHeads) {
  const SpeechKeys none;
  const SpeechTokens tokens;
  Model model(test::fixture_path("whisper/b"),
              {.threads = 1, .entry = [](ModelFile& file, const TransformerConfig& c) {
                 return transcribe_entry(file, c);
               }});
  Session session(model);
  try {
    WordAligner(session, tokens, none).require_heads();
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kUnsupported);
    EXPECT_NE(std::string(error.what()).find("alignment_heads"), std::string::npos) << error.what();
  }
}

}  // namespace
}  // namespace veery
