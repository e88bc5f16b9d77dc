#include "model/json_fields.h"

#include <cmath>

#include "base/error.h"
#include "file/printable.h"
#include "model/config.h"

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

int64_t JsonFields::size(const char* key) const {
  const Json* value = find(key);
  if (value == nullptr) throw Error(ErrorKind::kFormat, "{}: {} is missing", where_, key);
  // Some writers give sizes as 4096.0.
  double number = -1;
  if (value->is_number()) number = value->get<double>();
  if (!(number >= 1) || number > static_cast<double>(kMaxSize) || number != std::floor(number))
    fail(key, *value, "1 to 16777216");
  return static_cast<int64_t>(number);
}

int64_t JsonFields::size_or_zero(const char* key) const {
  const Json* value = find(key);
  if (value == nullptr || (value->is_number() && value->get<double>() == 0)) return 0;
  return size(key);
}

double JsonFields::number(const char* key) const {
  const Json* value = find(key);
  if (value == nullptr) throw Error(ErrorKind::kFormat, "{}: {} is missing", where_, key);
  if (!value->is_number() || !std::isfinite(value->get<double>()))
    fail(key, *value, "a finite number");
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
  if (!value->is_string()) fail(key, *value, "a text");
  return value->get<std::string>();
}

void JsonFields::fail(const char* key, const Json& found, const char* expected) const {
  throw Error(ErrorKind::kFormat, "{}: {} is {}, expected {}", where_, key,
              printable(dump_json(found)), expected);
}

}  // namespace veery
