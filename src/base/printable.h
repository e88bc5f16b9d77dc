// printable.h: text out of files, requests and arguments, fit to be shown.
#pragma once
#include <cstddef>
#include <span>
#include <string>
#include <string_view>

namespace veery {

/// For a quotation in a message: valid UTF-8 on one line that no terminal takes for a command.
/// Control characters (C0, DEL, C1), separators of lines and marks of writing direction become
/// escapes such as \n, \x1b, \u202e; malformed UTF-8 becomes U+FFFD. What would be
/// longer than `most` bytes ends in "..." there. What it returns, it leaves as it is.
std::string printable(std::string_view text, size_t most = 80);

/// The same as a whole and with backslashes doubled, so that it tells what the text is: for cells
/// of tables.
std::string escaped(std::string_view text);

/// For text that may have several lines and is shown as it is: the same escapes, but for newlines
/// and tabs; nothing is cut.
std::string terminal_text(std::string_view text);

/// JSON without what printable() escapes, as \u and four digits: the same value to who reads it.
std::string printable_json(std::string_view json);

/// "a, b, c and 5 others".
std::string some_of(std::span<const std::string> names, size_t shown = 3);

}  // namespace veery
