// words.h: the words of what was said, and when each of them was.
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
  std::string text;             ///< with the space before it, if there is one
  std::vector<int32_t> tokens;  ///< empty: its text belongs to a neighbour now
  double start = 0, end = 0;
  float probability = 0;  ///< the mean of those of its tokens

  double length() const { return end - start; }
};

/// Whether a language (its code) writes no spaces between words: each character is a word then.
bool has_no_spaces(std::string_view language);

/// Takes tokens of text apart where a word begins: at a space, at a sign of punctuation, and with
/// `characters` wherever a character is complete. Only texts and tokens are filled in.
std::vector<SpokenWord> split_words(const Tokenizer& tokenizer, std::span<const int32_t> tokens,
                                    bool characters);

/// How long words last, as far as the rules below ask.
struct WordLengths {
  double median = 0;  ///< of those that last at all, 0.7 s at most
  double most() const { return 2 * median; }
};
WordLengths word_lengths(std::span<const SpokenWord> words);

/// Sentences' ends, and words behind them, last no longer than WordLengths::most(): what is beyond
/// is a pause.
void shorten_at_sentences(std::span<SpokenWord> words, const WordLengths& lengths);

/// Opening signs become part of the word behind them, closing ones of that before; words without
/// text are gone then.
void merge_punctuation(std::vector<SpokenWord>& words);

/// The words of one segment, beside its own times, which become those of its first and last word.
/// Behind a pause (`last_end`: where the last word before them ended) the first word is no longer
/// than WordLengths::most(); where a word goes 0.5 s beyond what the segment says, that is
/// believed.
void fit_segment(std::span<SpokenWord> words, const WordLengths& lengths, double last_end,
                 double& start, double& end);

}  // namespace veery
