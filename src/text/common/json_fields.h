// json_fields.h: typed access to the members of small JSON objects in tokenizer files.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/json.h"
#include "text/common/regex.h"

namespace veery {

/// The functions below throw kFormat, naming the key, if the member has another type, or is missing
/// and has no default.
const Json& json_member(const Json& object, const char* key);
std::string json_text(const Json& object, const char* key);
std::string json_text(const Json& object, const char* key, std::string_view otherwise);
bool json_bool(const Json& object, const char* key, bool otherwise);
std::optional<bool> json_bool(const Json& object, const char* key);
int64_t json_integer(const Json& object, const char* key, int64_t otherwise);
const Json& json_array(const Json& object, const char* key);

/// Returns the only character of a text. Throws kFormat, naming the key, for other texts.
char32_t json_character(const Json& object, const char* key, std::string_view otherwise);

/// Returns {"String": text} or {"Regex": pattern} as a regular expression.
Regex json_pattern(const Json& object, const char* key);
/// Returns the text of {"String": text}; nullopt for other patterns.
std::optional<std::string> json_plain_pattern(const Json& object, const char* key);

}  // namespace veery
