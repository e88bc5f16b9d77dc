// fields.h: the fields of a request, each with its type and range.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "base/json.h"
#include "sample/parameters.h"
#include "serve/http/message.h"
#include "serve/rules/field_rules.h"

namespace veery::serve {

/// Reads fields of a JSON object. Null counts as absent. A value of another type or out of range
/// throws ApiError 400 with the field's name, what was found and what was expected.
class Fields {
 public:
  /// `json`: must outlive it. `where`: precedes names in messages ("messages[3].").
  explicit Fields(const Json& json, std::string where = {});

  bool has(const char* name) const { return find(name) != nullptr; }
  /// Returns nullptr if the field is absent or null.
  const Json* find(const char* name) const;
  std::optional<int64_t> integer(const char* name, int64_t low, int64_t high) const;
  std::optional<double> number(const char* name, double low, double high) const;
  /// Returns the value of a sampling parameter, which must be present.
  double parameter(const char* name, const SamplingParameter& parameter) const;
  std::optional<bool> flag(const char* name) const;
  std::optional<std::string> text(const char* name) const;
  /// Reads a text or a list of texts.
  std::vector<std::string> texts(const char* name) const;
  const Json* array(const char* name) const;
  const Json* object(const char* name) const;
  std::string require_text(const char* name) const;
  const Json& require_array(const char* name) const;

  const Json& json() const { return json_; }
  std::string name(const char* field) const { return where_ + field; }
  [[noreturn]] void fail(const char* name, const std::string& expected) const;

 private:
  const Json& json_;
  std::string where_;
};

/// Parses the body of a request, which must be an object, and applies the rules of its endpoint.
/// Throws ApiError 400 naming a field that is refused. Names without a rule are ignored and listed
/// in the header "Veery-Ignored-Fields" of the reply.
Json read_body(const HttpRequest& http, Reply& reply, const FieldRules& rules);

/// Applies the rules of an endpoint to a body that is parsed already.
void apply_rules(const Json& body, Reply& reply, const FieldRules& rules);

}  // namespace veery::serve
