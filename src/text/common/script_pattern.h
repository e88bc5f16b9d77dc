// script_pattern.h: a pattern that matches runs of characters of one script.
#pragma once
#include <string>

namespace veery {

/// Returns the pattern. Han, Hiragana, Katakana and the long vowel mark count as one script. Spaces
/// and characters without a script extend the run before them.
std::string script_pattern();

}  // namespace veery
