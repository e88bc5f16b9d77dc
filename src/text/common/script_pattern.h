// script_pattern.h: a pattern that matches runs of characters of one script.
#pragma once
#include <string>

namespace veery {

/// Han, Hiragana, Katakana and the long vowel mark count as one script; spaces and characters
/// without a script belong to the run before them.
std::string script_pattern();

}  // namespace veery
