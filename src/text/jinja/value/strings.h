// strings.h: Python's operations on str, over UTF-8; positions count code points.
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
bool is_word(char32_t c);  ///< what \w matches
bool is_printable(char32_t c);
/// True if `text` is not empty and `test` holds for each code point.
bool all_code_points(std::string_view text, bool (*test)(char32_t));
/// str.isupper (upper) and str.islower: some cased letter, and none of the other case.
bool has_case(std::string_view text, bool upper);
bool is_title(std::string_view text);

/// Where `part` begins first, from byte `from` on, and last in `text`; npos if nowhere.
size_t find_text(std::string_view text, std::string_view part, size_t from = 0);
size_t find_last_text(std::string_view text, std::string_view part);

/// Without `chars`: white space is stripped.
std::string_view strip_left(std::string_view text, std::optional<std::string_view> chars = {});
std::string_view strip_right(std::string_view text, std::optional<std::string_view> chars = {});
std::string_view strip(std::string_view text, std::optional<std::string_view> chars = {});

std::string upper(std::string_view text);
std::string lower(std::string_view text);
std::string swap_case(std::string_view text);
std::string capitalize(std::string_view text);
/// str.title(): a letter that follows no letter is made a capital.
std::string title(std::string_view text);
/// The filter: words are what stands between spaces and - ( { [ <.
std::string title_words(std::string_view text);

/// Byte offset of code point `index`, at most text.size().
size_t byte_offset(std::string_view text, size_t index);
size_t count_code_points(std::string_view text);

/// str.split and str.rsplit; an absent separator means runs of white space. `limit` < 0: no limit.
Views split(std::string_view text, std::optional<std::string_view> separator, int64_t limit);
Views split_right(std::string_view text, std::optional<std::string_view> separator, int64_t limit);
Views split_lines(std::string_view text, bool keep_ends = false);

/// `count` < 0: all.
std::string replace(std::string_view text, std::string_view old, std::string_view by,
                    int64_t count = -1);
std::string expand_tabs(std::string_view text, size_t width);
size_t count_occurrences(std::string_view text, std::string_view part);
size_t count_words(std::string_view text);
/// The beginning of a text, for messages.
std::string shown(std::string_view text);

/// & < > ' " as markupsafe writes them.
std::string escape_html(std::string_view text);
std::string strip_tags(std::string_view markup);
std::string quote_url(std::string_view text, bool for_query);
/// Appends `value` as hexadecimal digits, at least `digits` of them.
void append_hex(Builder& out, uint32_t value, int digits);
/// Quotes and escapes as Python's repr() does.
void append_quoted(Builder& out, std::string_view text);

}  // namespace veery::jinja
