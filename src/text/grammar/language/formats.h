// formats.h: values of the JSON Schema keyword "format" that are enforced.
#pragma once
#include <memory>
#include <string_view>

#include "text/grammar/language/automaton.h"

namespace veery::schema {

/// Returns the language of a format (RFC 3339, 3986, 4122, 4291, 5321 and others), or null if the
/// format is an annotation only.
std::shared_ptr<const Dfa> format_language(std::string_view name);

}  // namespace veery::schema
