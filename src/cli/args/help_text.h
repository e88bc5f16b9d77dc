// help_text.h: the look of help texts.
#pragma once
#include <string>
#include <string_view>

namespace veery::cli {

/// Column at which descriptions of options begin.
inline constexpr size_t kHelpColumn = 32;

/// Breaks a help text at 80 columns: paragraphs, and descriptions that begin at kHelpColumn. Lines
/// that are indented otherwise and what follows "Example:" stay as they are.
std::string fit_help(std::string_view text);

/// Breaks a text with columns (names, two spaces or more, a description) for a narrow terminal:
/// lines that are longer than `columns` go on below their description, or below their name where
/// that leaves too little room. What follows "Example:" stays as it is.
std::string narrowed(std::string_view text, int columns);

/// narrowed() for the terminal that a descriptor leads to; unchanged if that has 80 columns.
std::string help_for(const std::string& text, int descriptor);

}  // namespace veery::cli
