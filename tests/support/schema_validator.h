// schema_validator.h: validates values against JSON schemas according to the specification.
// Supports the keywords used in tests; independent of the grammar compiler.
#pragma once
#include <algorithm>
#include <cmath>
#include <string>

#include "base/error.h"
#include "base/json.h"
#include "text/common/regex.h"

namespace veery::test {

class SchemaValidator {
 public:
  explicit SchemaValidator(const Json& root) : root_(root) {}
  bool valid(const Json& value) const { return valid(root_, value); }

 private:
  static bool is_type(const Json& value, const std::string& type) {
    if (type == "null") return value.is_null();
    if (type == "boolean") return value.is_boolean();
    if (type == "number") return value.is_number();
    if (type == "integer") return value.is_number() && value.number() == std::floor(value.number());
    if (type == "string") return value.is_string();
    return type == "array" ? value.is_array() : value.is_object();
  }
  static int64_t length(const std::string& text) {
    return std::ranges::count_if(
        text, [](char c) { return (static_cast<unsigned char>(c) & 0xC0) != 0x80; });
  }
  static bool matches(const std::string& pattern, const std::string& text) {
    RegexScratch scratch;
    Regex::Match match;
    return Regex(pattern).find(text, 0, scratch, match);
  }
  int64_t count(const Json& schemas, const Json& value) const {
    return std::ranges::count_if(schemas, [&](const Json& schema) { return valid(schema, value); });
  }

  bool valid(const Json& schema, const Json& value) const {
    if (schema.is_boolean()) return schema.boolean();
    for (const auto& [key, rule] : schema.items())
      if (!keyword(schema, key, rule, value)) return false;
    return true;
  }

  bool keyword(const Json& schema, const std::string& key, const Json& rule,
               const Json& value) const {
    if (key == "type") {
      if (rule.is_string()) return is_type(value, rule.string());
      return std::ranges::any_of(rule,
                                 [&](const Json& type) { return is_type(value, type.string()); });
    }
    if (key == "const") return value == rule;
    if (key == "enum") return std::ranges::count(rule, value) > 0;
    if (key == "allOf") return count(rule, value) == static_cast<int64_t>(rule.size());
    if (key == "anyOf") return count(rule, value) > 0;
    if (key == "oneOf") return count(rule, value) == 1;
    if (key == "not") return !valid(rule, value);
    if (key == "if") {
      const Json* then = schema.member(valid(rule, value) ? "then" : "else");
      return then == nullptr || valid(*then, value);
    }
    if (key == "$ref") return valid(root_["$defs"][rule.string().substr(8)], value);
    if (value.is_number()) return number(key, rule, value.number());
    if (value.is_string()) return string(key, rule, value.string());
    if (value.is_array()) return array(schema, key, rule, value);
    return !value.is_object() || object(schema, key, rule, value);
  }

  static bool number(const std::string& key, const Json& rule, double value) {
    if (key == "minimum") return value >= rule.number();
    if (key == "maximum") return value <= rule.number();
    if (key == "exclusiveMinimum") return value > rule.number();
    if (key == "exclusiveMaximum") return value < rule.number();
    if (key == "multipleOf") return std::remainder(value, rule.number()) == 0;
    return true;
  }
  static bool string(const std::string& key, const Json& rule, const std::string& value) {
    if (key == "minLength") return length(value) >= rule.get<int64_t>();
    if (key == "maxLength") return length(value) <= rule.get<int64_t>();
    return key != "pattern" || matches(rule.string(), value);
  }
  bool array(const Json& schema, const std::string& key, const Json& rule,
             const Json& value) const {
    const auto size = static_cast<int64_t>(value.size());
    if (key == "minItems") return size >= rule.get<int64_t>();
    if (key == "maxItems") return size <= rule.get<int64_t>();
    if (key == "prefixItems") {
      for (size_t i = 0; i < std::min(rule.size(), value.size()); ++i)
        if (!valid(rule[i], value[i])) return false;
    } else if (key == "items") {
      const Json* first = schema.member("prefixItems");
      for (size_t i = first == nullptr ? 0 : first->size(); i < value.size(); ++i)
        if (!valid(rule, value[i])) return false;
    } else if (key == "contains") {
      const int64_t found =
          std::ranges::count_if(value, [&](const Json& item) { return valid(rule, item); });
      return found >= schema.value("minContains", int64_t{1}) &&
             found <= schema.value("maxContains", int64_t{1} << 40);
    }
    return true;
  }
  bool object(const Json& schema, const std::string& key, const Json& rule,
              const Json& value) const {
    const auto size = static_cast<int64_t>(value.size());
    if (key == "minProperties") return size >= rule.get<int64_t>();
    if (key == "maxProperties") return size <= rule.get<int64_t>();
    if (key == "required")
      return std::ranges::all_of(rule,
                                 [&](const Json& name) { return value.contains(name.string()); });
    if (key == "dependentRequired") {
      for (const auto& [name, needed] : rule.items())
        for (const Json& other : needed)
          if (value.contains(name) && !value.contains(other.string())) return false;
      return true;
    }
    for (const auto& [name, member] : value.items()) {
      const Json* properties = schema.member("properties");
      const Json* patterns = schema.member("patternProperties");
      const bool named = properties != nullptr && properties->contains(name);
      bool matched = false;
      if (patterns != nullptr)
        for (const auto& [pattern, of] : patterns->items()) {
          if (!matches(pattern, name)) continue;
          matched = true;
          if (key == "patternProperties" && !valid(of, member)) return false;
        }
      if (key == "properties" && named && !valid((*properties)[name], member)) return false;
      if (key == "additionalProperties" && !named && !matched && !valid(rule, member)) return false;
      if (key == "propertyNames" && !valid(rule, Json(name))) return false;
    }
    return true;
  }

  const Json& root_;
};

}  // namespace veery::test
