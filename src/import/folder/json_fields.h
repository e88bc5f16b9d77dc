// json_fields.h: checked access to the fields of a foreign JSON object.
#pragma once
#include <cstdint>
#include <map>
#include <string>

#include "base/json.h"

namespace veery {

/// A field that is absent has its default; one that is null has none. Throws kFormat naming file,
/// field, what was found and what was expected. What numbers may be is in number_ranges.h.
class JsonFields {
 public:
  /// `names`: what the file calls a field, where it is another name than ours.
  JsonFields(const Json& object, Json defaults, std::string where,
             std::map<std::string, std::string> names = {})
      : object_(object),
        defaults_(std::move(defaults)),
        where_(std::move(where)),
        names_(std::move(names)) {}

  const std::string& where() const { return where_; }
  /// What the file calls it.
  std::string name(const char* key) const;
  /// The field or its default; nullptr if there is neither or it is null.
  const Json* find(const char* key) const;
  bool has(const char* key) const { return find(key) != nullptr; }
  /// Whether the object itself has it.
  bool given(const char* key) const;
  /// Whether the object has it, as null.
  bool is_null(const char* key) const;

  /// The default, whatever the object has; nullptr: none.
  const Json* usual(const char* key) const;

  int64_t size(const char* key) const;          ///< a whole number above 0, must be there
  int64_t size_or_zero(const char* key) const;  ///< 0 if absent or 0
  double number(const char* key) const;         ///< within its range, must be there
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
