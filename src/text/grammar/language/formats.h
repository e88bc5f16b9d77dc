// formats.h: the values of "format" that are kept.
#pragma once
#include <memory>
#include <string_view>

#include "text/grammar/language/automaton.h"

namespace veery::schema {

/// Returns the texts of a format (RFC 3339, 3986, 4122, 4291, 5321 and others); null for a format
/// that is only an annotation.
std::shared_ptr<const Dfa> format_language(std::string_view name);

}  // namespace veery::schema
