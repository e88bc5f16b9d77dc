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

}  // namespace veery::cli
