// fields.h: the fields of a request, each with its type and range.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "base/json.h"

namespace veery::serve {

/// Fields that are null are as if they were not there. What is of another type or out of range
/// throws ApiError 400 with the field's name, what was found and what was expected.
class Fields {
 public:
  /// `json` must outlive it. `where`: stands before names ("messages[3].").
  explicit Fields(const Json& json, std::string where = {});

  bool has(const char* name) const { return find(name) != nullptr; }
  /// nullptr: absent or null.
  const Json* find(const char* name) const;
  std::optional<int64_t> integer(const char* name, int64_t low, int64_t high) const;
  std::optional<double> number(const char* name, double low, double high) const;
  std::optional<bool> flag(const char* name) const;
  std::optional<std::string> text(const char* name) const;
  /// A text, or a list of texts.
  std::vector<std::string> texts(const char* name) const;
  const Json* array(const char* name) const;
  const Json* object(const char* name) const;
  std::string require_text(const char* name) const;
  const Json& require_array(const char* name) const;

  std::string name(const char* field) const { return where_ + field; }
  [[noreturn]] void fail(const char* name, const std::string& expected) const;

 private:
  const Json& json_;
  std::string where_;
};

/// The body of a request: an object.
Json parse_body(const std::string& body);

}  // namespace veery::serve
