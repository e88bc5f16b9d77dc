// Keywords for types, constants, numbers and strings.
#include <algorithm>
#include <cmath>
#include <set>

#include "base/error.h"
#include "base/printable.h"
#include "text/grammar/language/formats.h"
#include "text/grammar/language/pattern.h"
#include "text/grammar/schema/meaning.h"

namespace veery::schema {
namespace {

Language shared(Dfa dfa) { return std::make_shared<const Dfa>(std::move(dfa)); }

Form form_of(uint8_t types) { return {.types = types}; }

Forms number_forms(Dfa language, const NumberDigits& digits, bool holds) {
  Dfa kept = holds ? std::move(language) : subtract(all_numbers(), language);
  const bool empty = kept.empty();
  Form form;
  if (!holds) form.types = kNumber;  // values of other types satisfy the keyword
  form.number = {.language = shared(std::move(kept)), .values = {}, .digits = digits};
  if (empty) form.types = static_cast<uint8_t>(form.types & ~kNumber);
  return form.types == 0 ? Forms{} : Forms{form};
}

}  // namespace

Language Meaning::pattern(const std::string& text) {
  Language& known = patterns_[text];
  if (!known) known = shared(pattern_language(text));
  return known;
}

Forms Meaning::of_type(const Json& value, bool holds) {
  constexpr std::pair<std::string_view, uint8_t> kNames[] = {
      {"null", kNull},   {"boolean", kFalse | kTrue}, {"number", kNumber}, {"string", kString},
      {"array", kArray}, {"object", kObject},         {"any", kAllTypes}};
  uint8_t types = 0;
  bool integers = false;
  const auto add = [&](const Json& name) {
    if (!name.is_string())
      throw Error(ErrorKind::kInput, "is {}, expected a type name or a list of type names",
                  printable(dump_json(name), 40));
    if (name.string() == "integer") {
      integers = true;
      return;
    }
    const auto* found =
        std::ranges::find(kNames, name.string(), [](const auto& pair) { return pair.first; });
    if (found == std::end(kNames))
      throw Error(ErrorKind::kInput, "'{}' is not a JSON type", printable(name.string(), 40));
    types = static_cast<uint8_t>(types | found->second);
  };
  if (value.is_array())
    for (const Json& name : value) add(name);
  else
    add(value);
  integers = integers && (types & kNumber) == 0;
  if (holds) {
    Forms forms;
    if (types != 0) forms.push_back(form_of(types));
    if (integers)
      forms.push_back({.types = kNumber, .number = {.language = shared(all_integers())}});
    return forms;
  }
  Form form = form_of(static_cast<uint8_t>(kAllTypes & ~types));
  if (integers) form.number.language = shared(subtract(all_numbers(), all_integers()));
  return form.types == 0 ? Forms{} : Forms{form};
}

// Returns a schema that only the given list or object satisfies.
const Json& Meaning::composite(const Json& value) {
  const auto known = composites_.find(&value);
  if (known != composites_.end()) return *known->second;
  Json schema = Json::object();
  if (value.is_array()) {
    schema["type"] = "array";
    schema["minItems"] = schema["maxItems"] = static_cast<int64_t>(value.size());
    if (!value.empty()) {
      Json items = Json::array();
      for (const Json& item : value) {
        Json constant = Json::object();
        constant["const"] = item;
        items.push_back(std::move(constant));
      }
      schema["prefixItems"] = std::move(items);
    }
  } else {
    schema["type"] = "object";
    Json properties = Json::object(), required = Json::array();
    for (const auto& [name, item] : value.items()) {
      properties[name] = Json::object();
      properties[name]["const"] = item;
      required.push_back(name);
    }
    schema["properties"] = std::move(properties);
    schema["required"] = std::move(required);
    schema["additionalProperties"] = false;
  }
  made_.push_back(std::move(schema));
  composites_.emplace(&value, &made_.back());
  return made_.back();
}

Forms Meaning::of_values(const Json& given, bool holds) {
  if (!given.is_array()) throw Error(ErrorKind::kInput, "expected a list");
  // The generated schemas point into this copy, since the caller's list may be destroyed first.
  made_.push_back(given);
  const Json& values = made_.back();
  Form scalars = form_of(0);
  scalars.number.values.emplace();
  scalars.string.values.emplace();
  std::vector<const Json*> composites;
  std::set<std::string> seen;
  const auto add = [&](uint8_t type) {
    scalars.types = static_cast<uint8_t>(scalars.types | type);
  };
  for (const Json& value : values) {
    if (value.is_null()) {
      add(kNull);
    } else if (value.is_boolean()) {
      add(value.boolean() ? kTrue : kFalse);
    } else if (value.is_number()) {
      if (value.is_number_float() && std::abs(value.number()) >= 9007199254740992.0)
        throw Error(ErrorKind::kUnsupported, "a double cannot represent the number {} exactly",
                    dump_json(value));
      add(kNumber);
      std::string plain = plain_number(value);
      if (seen.insert(plain).second)
        scalars.number.values->emplace_back(std::move(plain), dump_json(value));
    } else if (value.is_string()) {
      add(kString);
      if (seen.insert("\"" + value.string()).second)
        scalars.string.values->push_back(value.string());
    } else {
      composites.push_back(&value);
    }
  }
  if (holds) {
    Forms forms;
    if (scalars.types != 0) forms.push_back(scalars);
    for (const Json* value : composites)
      append_forms(forms, this->forms(literal(composite(*value), true)));
    return forms;
  }
  Form others =
      form_of(static_cast<uint8_t>(kAllTypes & ~(scalars.types & (kNull | kTrue | kFalse))));
  if (scalars.types & kNumber) {
    std::vector<std::string> words;
    for (const auto& [plain, written] : *scalars.number.values) words.push_back(plain);
    others.number.language = shared(subtract(all_numbers(), Dfa::words(words)));
  }
  if (scalars.types & kString)
    others.string.language = shared(Dfa::words(*scalars.string.values).complement());
  Forms forms{others};
  for (const Json* value : composites)
    forms = intersect_forms(forms, this->forms(literal(composite(*value), false)));
  return forms;
}

Forms Meaning::of_number(const Json& node, std::string_view keyword, bool holds) {
  const Json& value = node[keyword];
  const bool low = keyword == "minimum" || keyword == "exclusiveMinimum";
  // In draft 4 exclusive bounds are flags.
  if (value.is_boolean() && keyword.starts_with("exclusive"))
    return holds ? Forms{Form()} : Forms{};
  if (!value.is_number())
    throw Error(ErrorKind::kInput, "is a JSON {}, expected a number", value.type_name());
  const std::string bound = plain_number(value);
  NumberDigits digits;
  digits.widen(bound);
  if (keyword == "multipleOf") return number_forms(multiples_of(bound), digits, holds);
  const Json* flag = node.member(low ? "exclusiveMinimum" : "exclusiveMaximum");
  const bool exclusive = keyword.starts_with("exclusive") ||
                         (flag != nullptr && flag->is_boolean() && flag->boolean());
  return number_forms(low ? numbers_from(bound, exclusive) : numbers_to(bound, exclusive), digits,
                      holds);
}

Forms Meaning::of_string(const Json& node, std::string_view keyword, bool holds) {
  const Json& value = node[keyword];
  Form form;
  if (!holds) form.types = kString;
  if (keyword == "minLength" || keyword == "maxLength") {
    const int64_t count = count_of(value);
    const bool least = keyword == "minLength";
    if (!holds && least && count == 0) return {};
    if (least == holds)
      form.string.least = holds ? count : count + 1;
    else
      form.string.most = !holds ? count - 1 : count < kNoLimit ? count : -1;
    return {form};
  }
  if (!value.is_string())
    throw Error(ErrorKind::kInput, "is a JSON {}, expected a string", value.type_name());
  if (keyword == "format") {
    // Formats are annotations: they restrict what is generated but never fail.
    if (!holds) return {};
    if (Language language = format_language(value.string())) form.string.formats = {language};
    return {form};
  }
  Language language = pattern(value.string());
  form.string.language = holds ? language : shared(language->complement());
  if (form.string.language->empty()) form.types = static_cast<uint8_t>(form.types & ~kString);
  if (form.string.language->is_all()) form.string.language = nullptr;
  return form.types == 0 ? Forms{} : Forms{form};
}

}  // namespace veery::schema
