#include "serve/api/fields.h"

#include <fmt/format.h>

#include <cctype>
#include <cmath>

#include "base/printable.h"
#include "serve/api/api_error.h"

namespace veery::serve {

Fields::Fields(const Json& json, std::string where) : json_(json), where_(std::move(where)) {
  if (!json.is_object())
    throw ApiError(400,
                   fmt::format("{}: found a JSON {}, expected an object",
                               where_.empty() ? "the body" : where_.substr(0, where_.size() - 1),
                               json.type_name()),
                   where_);
}

const Json* Fields::find(const char* name) const {
  const Json* found = json_.member(name);
  return found == nullptr || found->is_null() ? nullptr : found;
}

void Fields::fail(const char* field, const std::string& expected) const {
  const Json* found = find(field);
  const std::string what = found == nullptr ? "missing"
                           : found->is_string() || found->is_number()
                               ? printable(dump_json(*found), 100)
                               : fmt::format("a JSON {}", found->type_name());
  throw ApiError(400, fmt::format("{} is {}, expected {}", name(field), what, expected),
                 name(field));
}

std::optional<int64_t> Fields::integer(const char* field, int64_t low, int64_t high) const {
  const Json* found = find(field);
  if (found == nullptr) return std::nullopt;
  // Some clients write 5.0.
  if (found->is_number_float()) {
    const double value = found->number();
    if (std::floor(value) == value && value >= static_cast<double>(low) &&
        value <= static_cast<double>(high))
      return static_cast<int64_t>(value);
  }
  if (!found->is_integer_in(low, high))
    fail(field, fmt::format("a whole number from {} to {}", low, high));
  return found->get<int64_t>();
}

std::optional<double> Fields::number(const char* field, double low, double high) const {
  const Json* found = find(field);
  if (found == nullptr) return std::nullopt;
  const double value = found->is_number() ? found->number() : std::nan("");
  if (!(value >= low && value <= high))
    fail(field, fmt::format("a number from {} to {}", low, high));
  return value;
}

double Fields::parameter(const char* field, const SamplingParameter& parameter) const {
  const Json* found = find(field);
  const double value = found != nullptr && found->is_number() ? found->number() : std::nan("");
  if (!parameter.accepts(value)) fail(field, parameter.expected());
  return value;
}

std::optional<bool> Fields::flag(const char* field) const {
  const Json* found = find(field);
  if (found == nullptr) return std::nullopt;
  if (!found->is_boolean()) fail(field, "true or false");
  return found->boolean();
}

std::optional<std::string> Fields::text(const char* field) const {
  const Json* found = find(field);
  if (found == nullptr) return std::nullopt;
  if (!found->is_string()) fail(field, "a text");
  return found->string();
}

std::vector<std::string> Fields::texts(const char* field) const {
  const Json* found = find(field);
  if (found == nullptr) return {};
  if (found->is_string()) return {found->string()};
  std::vector<std::string> all;
  if (!found->is_array()) fail(field, "a text or a list of texts");
  for (const Json& item : *found) {
    if (!item.is_string()) fail(field, "a text or a list of texts");
    all.push_back(item.string());
  }
  return all;
}

const Json* Fields::array(const char* field) const {
  const Json* found = find(field);
  if (found != nullptr && !found->is_array()) fail(field, "a list");
  return found;
}

const Json* Fields::object(const char* field) const {
  const Json* found = find(field);
  if (found != nullptr && !found->is_object()) fail(field, "an object");
  return found;
}

std::string Fields::require_text(const char* field) const {
  if (!has(field)) fail(field, "a text");
  return *text(field);
}

const Json& Fields::require_array(const char* field) const {
  if (!has(field)) fail(field, "a list");
  return *array(field);
}

namespace {

Json parse_body(const std::string& body) {
  if (body.empty()) throw ApiError(400, "the body is empty, expected a JSON object");
  Json json;
  try {
    json = parse_json(body, "the body");
  } catch (const Error& error) {
    if (error.kind() == ErrorKind::kBug) throw;
    throw ApiError(400, error.what());
  }
  if (!json.is_object())
    throw ApiError(400, fmt::format("the body is a JSON {}, expected an object", json.type_name()));
  return json;
}

// Names come from the client: a header holds no other characters.
std::string header_name(const std::string& name) {
  constexpr size_t kMost = 60;
  std::string text = name.substr(0, kMost);
  for (char& c : text)
    if (!std::isalnum(static_cast<unsigned char>(c)) &&
        std::string_view("_-.[]").find(c) == std::string_view::npos)
      c = '?';
  return text;
}

}  // namespace

void apply_rules(const Json& body, Reply& reply, const FieldRules& rules) {
  const FieldRules::Report report = rules.check(body);
  if (const auto& refusal = report.refusal)
    throw ApiError(400, fmt::format("{} is not supported: {}", refusal->path, refusal->reason),
                   refusal->param, "unsupported_parameter");
  std::string names;
  for (const std::string& name : report.unknown)
    names += (names.empty() ? "" : ", ") + header_name(name);
  if (!names.empty()) reply.add_header("Veery-Ignored-Fields", names);
}

Json read_body(const HttpRequest& http, Reply& reply, const FieldRules& rules) {
  Json body = parse_body(http.body);
  const Json* model = body.member("model");
  if (model != nullptr && model->is_string()) reply.record().model = model->string().substr(0, 200);
  if (reply.record().keeps_texts) reply.record().request_text = http.body;
  apply_rules(body, reply, rules);
  return body;
}

}  // namespace veery::serve
