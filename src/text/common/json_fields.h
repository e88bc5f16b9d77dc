// json_fields.h: members of the small objects in tokenizer files, by name and type.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/json.h"
#include "text/common/regex.h"

namespace veery {

/// Each throws kFormat naming the key if it is there with another type, or, without a default, if
/// it is absent.
const Json& json_member(const Json& object, const char* key);
std::string json_text(const Json& object, const char* key);
std::string json_text(const Json& object, const char* key, std::string_view otherwise);
bool json_bool(const Json& object, const char* key, bool otherwise);
std::optional<bool> json_bool(const Json& object, const char* key);
int64_t json_integer(const Json& object, const char* key, int64_t otherwise);
const Json& json_array(const Json& object, const char* key);

/// The one character that the text is. Throws kFormat naming the key if it is not one.
char32_t json_character(const Json& object, const char* key, std::string_view otherwise);

/// {"String": text} or {"Regex": pattern} as a regular expression.
Regex json_pattern(const Json& object, const char* key);
/// The text of {"String": text} if it is that.
std::optional<std::string> json_plain_pattern(const Json& object, const char* key);

}  // namespace veery
