#include "text/common/json_fields.h"

#include "base/error.h"
#include "base/printable.h"
#include "base/utf8.h"

namespace veery {
namespace {

[[noreturn]] void wrong(const char* key, const char* expected, const Json& found) {
  throw Error(ErrorKind::kFormat, "\"{}\" is {}, expected {}", key, printable(dump_json(found), 60),
              expected);
}

// Returns the member, or nullptr if it is missing or null.
const Json* find(const Json& object, const char* key) {
  if (!object.is_object())
    throw Error(ErrorKind::kFormat, "expected an object with \"{}\", found {}", key,
                printable(dump_json(object), 60));
  const auto at = object.find(key);
  return at == object.end() || at->is_null() ? nullptr : &*at;
}

}  // namespace

const Json& json_member(const Json& object, const char* key) {
  const Json* value = find(object, key);
  if (!value)
    throw Error(ErrorKind::kFormat, "\"{}\" is missing in {}", key,
                printable(dump_json(object), 60));
  return *value;
}

std::string json_text(const Json& object, const char* key) {
  const Json& value = json_member(object, key);
  if (!value.is_string()) wrong(key, "a string", value);
  return value.get<std::string>();
}

std::string json_text(const Json& object, const char* key, std::string_view otherwise) {
  return find(object, key) ? json_text(object, key) : std::string(otherwise);
}

std::optional<bool> json_bool(const Json& object, const char* key) {
  const Json* value = find(object, key);
  if (!value) return std::nullopt;
  if (!value->is_boolean()) wrong(key, "true or false", *value);
  return value->get<bool>();
}

bool json_bool(const Json& object, const char* key, bool otherwise) {
  return json_bool(object, key).value_or(otherwise);
}

int64_t json_integer(const Json& object, const char* key, int64_t otherwise) {
  const Json* value = find(object, key);
  if (!value) return otherwise;
  if (!value->is_number_integer()) wrong(key, "an integer", *value);
  return value->get<int64_t>();
}

const Json& json_array(const Json& object, const char* key) {
  const Json& value = json_member(object, key);
  if (!value.is_array()) wrong(key, "an array", value);
  return value;
}

char32_t json_character(const Json& object, const char* key, std::string_view otherwise) {
  const std::string text = json_text(object, key, otherwise);
  const CodePoint point = text.empty() ? CodePoint{0, 0, false} : next_code_point(text);
  if (!point.valid || static_cast<size_t>(point.length) != text.size())
    wrong(key, "one character", Json(text));
  return point.value;
}

std::optional<std::string> json_plain_pattern(const Json& object, const char* key) {
  const Json& value = json_member(object, key);
  if (value.is_string()) return value.get<std::string>();
  const Json* text = find(value, "String");
  if (!text) return std::nullopt;
  if (!text->is_string()) wrong("String", "a string", *text);
  return text->get<std::string>();
}

Regex json_pattern(const Json& object, const char* key) {
  if (const auto text = json_plain_pattern(object, key)) return Regex(regex_of(*text));
  return Regex(json_text(json_member(object, key), "Regex"), Regex::Dialect::kOniguruma);
}

}  // namespace veery
