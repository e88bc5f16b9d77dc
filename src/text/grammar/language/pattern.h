// pattern.h: the regular expressions of JSON Schema (ECMA-262) as languages.
#pragma once
#include <string_view>

#include "text/grammar/language/automaton.h"

namespace veery::schema {

/// Returns the texts in which `pattern` is found anywhere. Look-aheads are kept. Throws kInput for
/// a malformed pattern, kUnsupported for back references, look-behinds, word boundaries and
/// look-aheads inside of a repetition, kLimit for a language with too many states.
Dfa pattern_language(std::string_view pattern);

}  // namespace veery::schema
