// characters.h: character classes and Unicode normal forms for tokenizers. The classes "other" and
// "punctuation" follow Unicode 8.
#pragma once
#include <string>
#include <string_view>

#include "base/utf8.h"

namespace veery {

bool is_white_space(char32_t c);        ///< White_Space property
bool is_punctuation(char32_t c);        ///< general category P
bool is_ascii_punctuation(char32_t c);  ///< all of !-/:-@[-`{-~
bool is_number(char32_t c);             ///< general category N
bool is_mark(char32_t c);               ///< general category M
bool is_nonspacing_mark(char32_t c);    ///< general category Mn
bool is_other(char32_t c);              ///< controls, formats, surrogates, private use
bool is_word_character(char32_t c);     ///< \w: letters, marks, decimal digits, connectors
bool is_cjk_ideograph(char32_t c);      ///< in the blocks that BERT separates by spaces

/// Appends the lower case of a character, which may be two characters.
void append_lower(std::string& out, char32_t c);
std::string lower_case(std::string_view text);

/// Calls `visit(code point, bytes)` for each character. Malformed bytes are passed as U+FFFD.
template <typename Visit>
void for_each_character(std::string_view text, const Visit& visit) {
  while (!text.empty()) {
    const CodePoint point = next_code_point(text);
    visit(point.value, text.substr(0, static_cast<size_t>(point.length)));
    text.remove_prefix(static_cast<size_t>(point.length));
  }
}

enum class NormalForm { kNfc, kNfd, kNfkc, kNfkd };
/// Returns the text in a normal form; text that is not valid UTF-8 is returned unchanged.
std::string normal_form(std::string_view text, NormalForm form);

/// Returns the length in bytes of the first extended grapheme cluster (UAX 29) of a non-empty text.
size_t grapheme_length(std::string_view text);

}  // namespace veery
