// new_characters.h: characters that are younger than the Unicode tables of the system's libraries.
#pragma once

namespace veery {

/// A character of the same category (and of Han or not), and of as many bytes in UTF-8, that
/// Unicode 14 has in place of one that came after it, up to Unicode 17; others as they are.
char32_t stand_in(char32_t c);

}  // namespace veery
