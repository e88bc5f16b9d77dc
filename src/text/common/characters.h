// characters.h: classes and forms of Unicode characters, as tokenizers ask for them: those of other
// characters and of punctuation are as of Unicode 8.
#pragma once
#include <string>
#include <string_view>

#include "base/utf8.h"

namespace veery {

bool is_white_space(char32_t c);        ///< Unicode's White_Space
bool is_punctuation(char32_t c);        ///< general category P
bool is_ascii_punctuation(char32_t c);  ///< all of !-/:-@[-`{-~
bool is_number(char32_t c);             ///< general category N
bool is_mark(char32_t c);               ///< general category M
bool is_nonspacing_mark(char32_t c);    ///< general category Mn
bool is_other(char32_t c);              ///< controls, formats, surrogates, private use
bool is_word_character(char32_t c);     ///< \w: letters, marks, decimal digits, connectors
bool is_cjk_ideograph(char32_t c);      ///< of the blocks that BERT puts spaces around

/// Appends the lower case of one character, which may be two.
void append_lower(std::string& out, char32_t c);
std::string lower_case(std::string_view text);

/// Calls `visit(code point, its bytes)` for each character of `text`; malformed bytes are U+FFFD.
template <typename Visit>
void for_each_character(std::string_view text, const Visit& visit) {
  while (!text.empty()) {
    const CodePoint point = next_code_point(text);
    visit(point.value, text.substr(0, static_cast<size_t>(point.length)));
    text.remove_prefix(static_cast<size_t>(point.length));
  }
}

enum class NormalForm { kNfc, kNfd, kNfkc, kNfkd };
/// Text that is not UTF-8 stays as it is.
std::string normal_form(std::string_view text, NormalForm form);

/// The length in bytes of the first grapheme cluster (UAX 29, extended) of `text` (not empty).
size_t grapheme_length(std::string_view text);

}  // namespace veery
