// help_text.h: line breaks of help texts.
#pragma once
#include <string>
#include <string_view>

namespace veery::cli {

/// The column at which descriptions of options begin.
inline constexpr size_t kHelpColumn = 32;

/// Breaks paragraphs and descriptions (at kHelpColumn) of a help text at 80 columns. Lines with
/// another indent, and all lines from "Example:" on, stay unchanged.
std::string fit_help(std::string_view text);

/// Breaks a text of two columns (name, two or more spaces, description) for a terminal of `columns`
/// columns. Longer lines continue below their description, or below their name if the description
/// would be too narrow. All lines from "Example:" on stay unchanged.
std::string narrowed(std::string_view text, int columns);

/// Returns narrowed() for the terminal of `descriptor`, or the text if it has 80 columns or more.
std::string help_for(const std::string& text, int descriptor);

}  // namespace veery::cli
