#include "import/folder/json_fields.h"

#include <cmath>

#include "base/error.h"
#include "base/printable.h"
#include "model/number_ranges.h"

namespace veery {

const Json* JsonFields::find(const char* key) const {
  auto found = object_.find(key);
  if (found == object_.end()) {
    found = defaults_.find(key);
    if (found == defaults_.end()) return nullptr;
  }
  return found->is_null() ? nullptr : &*found;
}

bool JsonFields::given(const char* key) const {
  const auto found = object_.find(key);
  return found != object_.end() && !found->is_null();
}

bool JsonFields::is_null(const char* key) const {
  const auto found = object_.find(key);
  return found != object_.end() && found->is_null();
}

std::string JsonFields::name(const char* key) const {
  const auto found = names_.find(key);
  return found == names_.end() ? key : found->second;
}

const Json* JsonFields::usual(const char* key) const {
  const auto found = defaults_.find(key);
  return found == defaults_.end() ? nullptr : &*found;
}

int64_t JsonFields::size(const char* key) const {
  const Json* value = find(key);
  if (value == nullptr) throw Error(ErrorKind::kFormat, "{}: missing {}", where_, name(key));
  // Some programs write sizes as 4096.0.
  double number = -1;
  if (value->is_number()) number = value->get<double>();
  const NumberRange range = range_of_size(key);
  if (!range.holds(number) || number != std::floor(number)) fail(key, *value, range.text());
  return static_cast<int64_t>(number);
}

int64_t JsonFields::size_or_zero(const char* key) const {
  const Json* value = find(key);
  if (value == nullptr || (value->is_number() && value->get<double>() == 0)) return 0;
  return size(key);
}

double JsonFields::number(const char* key) const {
  const Json* value = find(key);
  if (value == nullptr) throw Error(ErrorKind::kFormat, "{}: missing {}", where_, name(key));
  const NumberRange range = range_of_number(key);
  if (!value->is_number() || !range.holds(value->get<double>())) fail(key, *value, range.text());
  return value->get<double>();
}

double JsonFields::number_or(const char* key, double fallback) const {
  return has(key) ? number(key) : fallback;
}

bool JsonFields::flag_or(const char* key, bool fallback) const {
  const Json* value = find(key);
  if (value == nullptr) return fallback;
  if (!value->is_boolean()) fail(key, *value, "true or false");
  return value->get<bool>();
}

std::string JsonFields::text_or(const char* key, const char* fallback) const {
  const Json* value = find(key);
  if (value == nullptr) return fallback;
  if (!value->is_string()) fail(key, *value, "a string");
  return value->get<std::string>();
}

void JsonFields::fail(const char* key, const Json& found, const std::string& expected) const {
  throw Error(ErrorKind::kFormat, "{}: {} is {}, expected {}", where_, name(key),
              printable(dump_json(found)), expected);
}

}  // namespace veery
