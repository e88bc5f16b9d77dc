// words.h: words of a transcript and the rules for their times.
#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "text/tokenizer.h"

namespace veery {

/// Times in seconds.
struct SpokenWord {
  std::string text;             ///< with its leading space
  std::vector<int32_t> tokens;  ///< empty: merged into a neighbour
  double start = 0, end = 0;
  float probability = 0;  ///< mean over its tokens

  double length() const { return end - start; }
};

/// Whether a language (by its code) has no spaces between words, so that each character is a word.
bool has_no_spaces(std::string_view language);

/// Splits text tokens into words: before a space and at punctuation or, with `characters`, after
/// each complete character. Fills in text and tokens only.
std::vector<SpokenWord> split_words(const Tokenizer& tokenizer, std::span<const int32_t> tokens,
                                    bool characters);

/// The duration of words, for the rules below.
struct WordLengths {
  double median = 0;  ///< of words with a duration, at most 0.7 s
  double most() const { return 2 * median; }
};
WordLengths word_lengths(std::span<const SpokenWord> words);

/// Limits the ends of sentences and the words after them to WordLengths::most(): the rest is a
/// pause.
void shorten_at_sentences(std::span<SpokenWord> words, const WordLengths& lengths);

/// Merges opening signs into the word after them and closing signs into the word before them, and
/// removes words without text.
void merge_punctuation(std::vector<SpokenWord>& words);

/// Reconciles the words of a segment with its times, which become those of its first and last word.
/// `last_end`: end of the word before the segment. After a pause the first word is limited to
/// WordLengths::most(). If a word exceeds the times of the segment by 0.5 s, those of the segment
/// are used.
void fit_segment(std::span<SpokenWord> words, const WordLengths& lengths, double last_end,
                 double& start, double& end);

}  // namespace veery
