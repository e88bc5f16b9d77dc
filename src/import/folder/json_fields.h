// json_fields.h: checked access to the fields of an untrusted JSON object.
#pragma once
#include <cstdint>
#include <map>
#include <string>

#include "base/json.h"

namespace veery {

/// Reads fields of an object. An absent field has its default; a null field has no value. Throws
/// kFormat naming file, field, what was found and what was expected. number_ranges.h has the valid
/// ranges of numbers.
class JsonFields {
 public:
  /// `names` maps our field names to those in the file, if they differ.
  JsonFields(const Json& object, Json defaults, std::string where,
             std::map<std::string, std::string> names = {})
      : object_(object),
        defaults_(std::move(defaults)),
        where_(std::move(where)),
        names_(std::move(names)) {}

  const std::string& where() const { return where_; }
  /// Returns the name of a field in the file.
  std::string name(const char* key) const;
  /// Returns the field or its default; nullptr if it is null or neither exists.
  const Json* find(const char* key) const;
  bool has(const char* key) const { return find(key) != nullptr; }
  /// Returns whether the object itself has the field.
  bool given(const char* key) const;
  /// Returns whether the object has the field with the value null.
  bool is_null(const char* key) const;

  /// Returns the default of a field, regardless of the object; nullptr if there is none.
  const Json* usual(const char* key) const;

  int64_t size(const char* key) const;          ///< an integer above 0; required
  int64_t size_or_zero(const char* key) const;  ///< 0 if absent or 0
  double number(const char* key) const;         ///< within the range of the key; required
  double number_or(const char* key, double fallback) const;
  bool flag_or(const char* key, bool fallback) const;
  std::string text_or(const char* key, const char* fallback) const;

 private:
  [[noreturn]] void fail(const char* key, const Json& found, const std::string& expected) const;

  const Json& object_;
  Json defaults_;
  std::string where_;
  std::map<std::string, std::string> names_;
};

}  // namespace veery
