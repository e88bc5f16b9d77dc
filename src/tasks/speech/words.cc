#include "tasks/speech/words.h"

#include <algorithm>

#include "base/utf8.h"

namespace veery {
namespace {

// The signs and numbers of this file are those of OpenAI's code (whisper/timing.py, tokenizer.py).
// A text is a sign if it is a substring of the list, as there.
constexpr std::string_view kAsciiPunctuation = "!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~";
constexpr std::string_view kOpening = "\"'“¿([{-";
constexpr std::string_view kClosing = "\"'.。,，!！?？:：”)]}、";
constexpr std::string_view kSentenceEnds = ".。!！?？";
constexpr double kLongestMedian = 0.7;

bool is_in(std::string_view signs, std::string_view text) {
  return signs.find(text) != std::string_view::npos;
}

std::string_view without_space(std::string_view text) {
  constexpr std::string_view kSpace = " \t\n\r\f\v";
  const size_t first = text.find_first_not_of(kSpace);
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(kSpace) + 1 - first);
}

// Whether a text may be cut after its first `end` bytes, not within a character.
bool is_complete(std::string_view text, size_t end) {
  const auto open = static_cast<size_t>(incomplete_utf8_suffix(text.substr(0, end)));
  return open == 0 || !next_code_point(text.substr(end - open)).valid;
}

std::vector<SpokenWord> split_characters(const Tokenizer& tokenizer,
                                         std::span<const int32_t> tokens) {
  std::string text;
  std::vector<size_t> ends;
  for (const int32_t token : tokens) {
    text += tokenizer.piece(token);
    ends.push_back(text.size());
  }
  std::vector<SpokenWord> parts;
  size_t begin = 0;
  for (size_t i = 0; i < tokens.size(); ++i) {
    if (i == 0 || parts.back().text.size() > 0) parts.emplace_back();
    parts.back().tokens.push_back(tokens[i]);
    if (!is_complete(text, ends[i]) && i + 1 < tokens.size()) continue;
    parts.back().text = valid_utf8(std::string_view(text).substr(begin, ends[i] - begin));
    begin = ends[i];
  }
  return parts;
}

}  // namespace

bool has_no_spaces(std::string_view language) {
  constexpr std::string_view kSuch[] = {"zh", "ja", "th", "lo", "my", "yue"};
  return std::ranges::find(kSuch, language) != std::end(kSuch);
}

std::vector<SpokenWord> split_words(const Tokenizer& tokenizer, std::span<const int32_t> tokens,
                                    bool characters) {
  std::vector<SpokenWord> parts = split_characters(tokenizer, tokens);
  if (characters) return parts;
  std::vector<SpokenWord> words;
  for (SpokenWord& part : parts) {
    if (words.empty() || part.text.starts_with(' ') ||
        is_in(kAsciiPunctuation, without_space(part.text))) {
      words.push_back(std::move(part));
      continue;
    }
    words.back().text += part.text;
    words.back().tokens.insert(words.back().tokens.end(), part.tokens.begin(), part.tokens.end());
  }
  return words;
}

WordLengths word_lengths(std::span<const SpokenWord> words) {
  std::vector<double> lengths;
  for (const SpokenWord& word : words)
    if (word.length() != 0) lengths.push_back(word.length());
  if (lengths.empty()) return {};
  std::ranges::sort(lengths);
  const size_t half = lengths.size() / 2;
  const double median =
      lengths.size() % 2 == 1 ? lengths[half] : (lengths[half - 1] + lengths[half]) / 2;
  return {std::min(median, kLongestMedian)};
}

void shorten_at_sentences(std::span<SpokenWord> words, const WordLengths& lengths) {
  if (lengths.median == 0) return;
  for (size_t i = 1; i < words.size(); ++i) {
    if (words[i].length() <= lengths.most()) continue;
    if (is_in(kSentenceEnds, words[i].text))
      words[i].end = words[i].start + lengths.most();
    else if (is_in(kSentenceEnds, words[i - 1].text))
      words[i].start = words[i].end - lengths.most();
  }
}

void merge_punctuation(std::vector<SpokenWord>& words) {
  // From the last to the first, so that several opening signs reach the same word.
  for (size_t i = words.size(), into = words.size(); i-- > 0;) {
    SpokenWord& sign = words[i];
    if (into == words.size() || !sign.text.starts_with(' ') ||
        !is_in(kOpening, without_space(sign.text))) {
      into = i;
      continue;
    }
    SpokenWord& word = words[into];
    word.text = sign.text + word.text;
    word.tokens.insert(word.tokens.begin(), sign.tokens.begin(), sign.tokens.end());
    sign.text.clear();
    sign.tokens.clear();
  }
  size_t into = 0;
  for (size_t i = 1; i < words.size(); ++i) {
    SpokenWord &word = words[into], &sign = words[i];
    if (word.text.ends_with(' ') || !is_in(kClosing, sign.text)) {
      into = i;
      continue;
    }
    word.text += sign.text;
    word.tokens.insert(word.tokens.end(), sign.tokens.begin(), sign.tokens.end());
    sign.text.clear();
    sign.tokens.clear();
  }
  std::erase_if(words, [](const SpokenWord& word) { return word.text.empty(); });
}

void fit_segment(std::span<SpokenWord> words, const WordLengths& lengths, double last_end,
                 double& start, double& end) {
  constexpr double kBelieved = 0.5;
  if (words.empty()) return;
  SpokenWord& first = words.front();
  const double most = lengths.most();
  const bool two = words.size() > 1;
  if (first.end - last_end > 4 * lengths.median &&
      (first.length() > most || (two && words[1].end - first.start > 2 * most))) {
    if (two && words[1].length() > most)
      first.end = words[1].start = std::max(words[1].end / 2, words[1].end - most);
    first.start = std::max(0.0, first.end - most);
  }
  if (start < first.end && start - kBelieved > first.start)
    first.start = std::max(0.0, std::min(first.end - lengths.median, start));
  else
    start = first.start;
  SpokenWord& last = words.back();
  if (end > last.start && end + kBelieved < last.end)
    last.end = std::max(last.start + lengths.median, end);
  else
    end = last.end;
}

}  // namespace veery
