// printable.h: makes text from files, requests and arguments safe to print.
#pragma once
#include <cstddef>
#include <span>
#include <string>
#include <string_view>

namespace veery {

/// Escapes text for quotation in a message: valid UTF-8 on one line without terminal control
/// sequences. Control characters (C0, DEL, C1), line separators and direction marks become escapes
/// such as \n, \x1b, \u202e; malformed UTF-8 becomes U+FFFD. A result longer than `most` bytes is
/// cut and ends in "...". Applying it twice changes nothing.
std::string printable(std::string_view text, size_t most = 80);

/// As printable() without a length limit and with backslashes doubled, so that the result is
/// unambiguous; for table cells.
std::string escaped(std::string_view text);

/// For multi-line text: escapes as printable() does, except newlines and tabs; no length limit.
std::string terminal_text(std::string_view text);

/// Replaces the characters that printable() escapes by \u and four digits; a JSON parser reads the
/// same value.
std::string printable_json(std::string_view json);

/// Joins the first `shown` names and counts the rest: "a, b, c and 5 others".
std::string some_of(std::span<const std::string> names, size_t shown = 3);

}  // namespace veery
