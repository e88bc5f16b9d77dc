// json.h: the JSON type of the project, and parsing that is safe on foreign text.
#pragma once
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

namespace veery {

/// Keys keep the order in which they were written: templates and printed answers depend on it.
using Json = nlohmann::ordered_json;

/// Parses `text`. Throws kFormat naming `what` and the place; refuses more than `max_depth` levels.
Json parse_json(std::string_view text, const std::string& what, int max_depth = 128);

/// One line; bytes that are not UTF-8 become U+FFFD instead of an exception.
std::string dump_json(const Json& value, int indent = -1);

}  // namespace veery
