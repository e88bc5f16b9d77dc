// new_characters.h: characters that are newer than the Unicode tables of the system libraries.
#pragma once

namespace veery {

/// Replaces a character added after Unicode 14 (up to Unicode 17) by a character of Unicode 14 that
/// has the same category, script (Han or not) and length in UTF-8. Returns other characters
/// unchanged.
char32_t stand_in(char32_t c);

}  // namespace veery
