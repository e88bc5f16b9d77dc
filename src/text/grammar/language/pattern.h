// pattern.h: the regular expressions of JSON Schema (ECMA-262) as languages.
#pragma once
#include <string_view>

#include "text/grammar/language/automaton.h"

namespace veery::schema {

/// Returns the language of texts that contain a match of `pattern` anywhere. Look-aheads are
/// supported. Throws kInput for a malformed pattern; kUnsupported for back references,
/// look-behinds, word boundaries and look-aheads inside a repetition; kLimit if the language has
/// too many states.
Dfa pattern_language(std::string_view pattern);

}  // namespace veery::schema
