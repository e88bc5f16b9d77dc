// strings.h: Python's str operations on UTF-8. Positions count code points unless stated otherwise.
#pragma once
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "text/jinja/value/budget.h"

namespace veery::jinja {

using Views = std::vector<std::string_view>;

bool is_space(char32_t c);
bool is_letter(char32_t c);
bool is_digit(char32_t c);    ///< decimal digits of any script
bool is_numeric(char32_t c);  ///< digits and other numerals
bool is_upper(char32_t c);
bool is_lower(char32_t c);
bool is_word(char32_t c);  ///< matches \w
bool is_printable(char32_t c);
/// Returns whether `text` is not empty and `test` holds for each code point.
bool all_code_points(std::string_view text, bool (*test)(char32_t));
/// str.isupper() (upper) or str.islower(): at least one cased letter, and none of the other case.
bool has_case(std::string_view text, bool upper);
bool is_title(std::string_view text);

/// Returns the byte offset of the first occurrence of `part` at or after byte `from`, or of the
/// last occurrence; npos if there is none.
size_t find_text(std::string_view text, std::string_view part, size_t from = 0);
size_t find_last_text(std::string_view text, std::string_view part);

/// Strip `chars`, or whitespace if absent.
std::string_view strip_left(std::string_view text, std::optional<std::string_view> chars = {});
std::string_view strip_right(std::string_view text, std::optional<std::string_view> chars = {});
std::string_view strip(std::string_view text, std::optional<std::string_view> chars = {});

std::string upper(std::string_view text);
std::string lower(std::string_view text);
std::string swap_case(std::string_view text);
std::string capitalize(std::string_view text);
/// str.title(): capitalises each letter that does not follow a letter.
std::string title(std::string_view text);
/// The filter "title": words are separated by spaces and - ( { [ <.
std::string title_words(std::string_view text);

/// Returns the byte offset of code point `index`, at most text.size().
size_t byte_offset(std::string_view text, size_t index);
size_t count_code_points(std::string_view text);

/// str.split() and str.rsplit(). Without a separator splits at runs of whitespace. `limit` < 0: no
/// limit.
Views split(std::string_view text, std::optional<std::string_view> separator, int64_t limit);
Views split_right(std::string_view text, std::optional<std::string_view> separator, int64_t limit);
Views split_lines(std::string_view text, bool keep_ends = false);

/// `count` < 0: replaces all occurrences.
std::string replace(std::string_view text, std::string_view old, std::string_view by,
                    int64_t count = -1);
std::string expand_tabs(std::string_view text, size_t width);
size_t count_occurrences(std::string_view text, std::string_view part);
size_t count_words(std::string_view text);
/// Returns the printable beginning of a text, for messages.
std::string shown(std::string_view text);

/// Escapes & < > ' " like markupsafe.
std::string escape_html(std::string_view text);
std::string strip_tags(std::string_view markup);
std::string quote_url(std::string_view text, bool for_query);
/// Appends `value` in hexadecimal with at least `digits` digits.
void append_hex(Builder& out, uint32_t value, int digits);
/// Appends the text quoted and escaped like Python's repr().
void append_quoted(Builder& out, std::string_view text);

}  // namespace veery::jinja
