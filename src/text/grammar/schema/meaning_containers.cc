// Keywords for objects and arrays.
#include <algorithm>

#include "base/error.h"
#include "base/printable.h"
#include "text/grammar/schema/meaning.h"

namespace veery::schema {
namespace {

Form object_form(bool holds) { return {.types = holds ? kAllTypes : kObject}; }
Form array_form(bool holds) { return {.types = holds ? kAllTypes : kArray}; }

void expect_object(const Json& value) {
  if (!value.is_object())
    throw Error(ErrorKind::kInput, "is a JSON {}, expected an object", value.type_name());
}

std::vector<std::string> names_of(const Json& value) {
  if (!value.is_array())
    throw Error(ErrorKind::kInput, "is a JSON {}, expected a list of names", value.type_name());
  std::vector<std::string> names;
  for (const Json& name : value) {
    if (!name.is_string()) throw Error(ErrorKind::kInput, "expected a list of strings");
    names.push_back(name.string());
  }
  return names;
}

Form without_member(const std::string& name, uint8_t types) {
  Form form{.types = types};
  form.object.properties.push_back({.name = name, .value = kNever, .required = false});
  return form;
}

}  // namespace

Forms Meaning::of_object(const Json& node, std::string_view keyword, bool holds) {
  const Json& value = node[keyword];
  if (keyword == "properties" || keyword == "patternProperties" ||
      keyword == "additionalProperties")
    return of_properties(node, holds);
  if (keyword == "dependentRequired" || keyword == "dependentSchemas" || keyword == "dependencies")
    return of_dependencies(value, holds);
  Form form = object_form(holds);
  if (keyword == "required") {
    // A flag in draft 3.
    if (value.is_boolean()) return holds ? Forms{form} : Forms{};
    Forms missing;
    for (const std::string& name : names_of(value)) {
      form.object.require(name);
      missing.push_back(without_member(name, kObject));
    }
    return holds ? Forms{form} : missing;
  }
  if (keyword == "propertyNames") {
    const Conjunction names = literal(value, true);
    if (names.empty()) return holds ? Forms{Form()} : Forms{};
    auto language =
        std::make_shared<const Dfa>(holds ? strings(names) : strings(names).complement());
    if (holds)
      form.object.names = {language};
    else
      form.object.some.push_back(
          {.pattern = language, .but_names = {}, .but_patterns = {}, .value = {}});
    return {form};
  }
  const int64_t count = count_of(value);
  const bool least = keyword == "minProperties";
  if (!holds && least && count == 0) return {};
  if (least == holds)
    form.object.least = holds ? count : count + 1;
  else
    form.object.most = !holds ? count - 1 : count < kNoLimit ? count : -1;
  return {form};
}

// Returns the rule for members named by neither properties nor patternProperties of the node.
ObjectForm::Rule Meaning::others(const Json& node, Conjunction value) {
  ObjectForm::Rule rule{
      .pattern = nullptr, .but_names = {}, .but_patterns = {}, .value = std::move(value)};
  if (const Json* properties = node.member("properties"))
    for (const auto& [name, schema] : properties->items()) rule.but_names.push_back(name);
  if (const Json* patterns = node.member("patternProperties"))
    for (const auto& [text, schema] : patterns->items()) rule.but_patterns.push_back(pattern(text));
  return rule;
}

Forms Meaning::of_properties(const Json& node, bool holds) {
  Form form;
  Forms failing;
  const auto fail_some = [&](ObjectForm::Rule rule) {
    Form one = object_form(false);
    one.object.some.push_back(std::move(rule));
    failing.push_back(std::move(one));
  };
  if (const Json* properties = node.member("properties")) {
    expect_object(*properties);
    for (const auto& [name, schema] : properties->items()) {
      form.object.properties.push_back(
          {.name = name, .value = literal(schema, true), .required = false});
      const Conjunction not_so = literal(schema, false);
      if (holds || not_so == kNever) continue;
      Form one = object_form(false);
      one.object.properties.push_back({.name = name, .value = not_so, .required = true});
      failing.push_back(std::move(one));
    }
  }
  if (const Json* patterns = node.member("patternProperties")) {
    expect_object(*patterns);
    for (const auto& [text, schema] : patterns->items()) {
      const Language language = pattern(text);
      form.object.rules.push_back({.pattern = language,
                                   .but_names = {},
                                   .but_patterns = {},
                                   .value = literal(schema, true)});
      if (!holds && literal(schema, false) != kNever)
        fail_some({.pattern = language,
                   .but_names = {},
                   .but_patterns = {},
                   .value = literal(schema, false)});
    }
  }
  if (const Json* additional = node.member("additionalProperties")) {
    const Conjunction value = literal(*additional, true);
    form.object.rules.push_back(others(node, value));
    if (!holds && literal(*additional, false) != kNever)
      fail_some(others(node, literal(*additional, false)));
  }
  form.object.described = !form.object.properties.empty() || node.contains("patternProperties");
  return holds ? Forms{form} : failing;
}

Forms Meaning::of_dependencies(const Json& dependencies, bool holds) {
  expect_object(dependencies);
  Forms all{Form()}, failing;
  for (const auto& [name, needed] : dependencies.items()) {
    Form with{.types = kObject};
    with.object.require(name);
    Forms one;
    if (needed.is_array() || needed.is_string()) {
      const auto names = needed.is_string() ? std::vector{needed.string()} : names_of(needed);
      if (names.empty()) continue;
      for (const std::string& other : names) {
        append_forms(failing, intersect_forms({with}, {without_member(other, kObject)}));
      }
      for (const std::string& other : names) with.object.require(other);
      one = {with};
    } else {
      one = intersect_forms({with}, forms(literal(needed, true)));
      if (!holds) append_forms(failing, intersect_forms({with}, forms(literal(needed, false))));
    }
    one.push_back(without_member(name, kAllTypes));
    if (holds) all = intersect_forms(all, one);
  }
  return holds ? all : failing;
}

Forms Meaning::of_array(const Json& node, std::string_view keyword, bool holds) {
  const Json& value = node[keyword];
  if (keyword == "items" || keyword == "prefixItems" || keyword == "additionalItems")
    return of_items(node, holds);
  if (keyword == "contains") return of_contains(node, holds);
  Form form = array_form(holds);
  if (keyword == "uniqueItems") {
    if (!value.is_boolean() || !value.boolean()) return holds ? Forms{Form()} : Forms{};
    if (!holds) throw Error(ErrorKind::kUnsupported, "is not supported where it must not hold");
    form.array.unique = true;
    return {form};
  }
  const int64_t count = count_of(value);
  const bool least = keyword == "minItems";
  if (!holds && least && count == 0) return {};
  if (least == holds)
    form.array.least = holds ? count : count + 1;
  else
    form.array.most = !holds ? count - 1 : count < kNoLimit ? count : -1;
  return {form};
}

// In drafts 4 to 2019-09 `items` may be a list, followed by additionalItems.
Forms Meaning::of_items(const Json& node, bool holds) {
  const Json* first = node.member("prefixItems");
  const Json* rest = node.member("items");
  if (rest != nullptr && rest->is_array() && first == nullptr) {
    first = rest;
    rest = node.member("additionalItems");
  }
  Form form;
  Forms failing;
  if (first != nullptr)
    for (const Json& item : *first) {
      form.array.first.push_back(literal(item, true));
      Form one = array_form(false);
      one.array.least = std::ssize(form.array.first);
      one.array.first.assign(form.array.first.size() - 1, {});
      one.array.first.push_back(literal(item, false));
      if (!holds && one.array.first.back() != kNever) failing.push_back(std::move(one));
    }
  if (rest != nullptr && !rest->is_array()) {
    form.array.rest = literal(*rest, true);
    const Conjunction not_so = literal(*rest, false);
    if (!holds && not_so != kNever) {
      Form one = array_form(false);
      if (form.array.first.empty()) {
        one.array.contains.push_back({.item = not_so});
      } else if (form.array.rest == kNever) {
        one.array.least = std::ssize(form.array.first) + 1;
      } else {
        throw Error(ErrorKind::kUnsupported,
                    "is not supported beside leading items where it must not hold");
      }
      failing.push_back(std::move(one));
    }
  }
  return holds ? Forms{form} : failing;
}

Forms Meaning::of_contains(const Json& node, bool holds) {
  const auto count = [&](const char* key, int64_t otherwise) {
    const Json* found = node.member(key);
    return found == nullptr ? otherwise : count_of(*found);
  };
  const int64_t least = count("minContains", 1), most = count("maxContains", -1);
  const Conjunction item = literal(node["contains"], true);
  if (holds) {
    Form form;
    if (least > 0 || most >= 0)
      form.array.contains.push_back({.item = item, .least = least, .most = most});
    return {form};
  }
  Forms failing;
  if (least == 1) {
    Form none = array_form(false);
    none.array.rest = literal(node["contains"], false);
    failing.push_back(std::move(none));
  } else if (least > 1) {
    Form few = array_form(false);
    few.array.contains.push_back({.item = item, .least = 0, .most = least - 1});
    failing.push_back(std::move(few));
  }
  if (most >= 0) {
    Form many = array_form(false);
    many.array.contains.push_back({.item = item, .least = most + 1, .most = -1});
    failing.push_back(std::move(many));
  }
  return failing;
}

// Properties or items that adjacent subschemas always evaluate, regardless of the value.
struct Meaning::Evaluated {
  std::vector<std::string> names;
  std::vector<Language> patterns;
  bool all_members = false;
  size_t items = 0;
  bool all_items = false;
};

void Meaning::collect_evaluated(const Json& node, Evaluated& found, int depth) {
  if (!node.is_object()) return;
  if (depth > 50) throw Error(ErrorKind::kUnsupported, "refers to itself, which is not supported");
  if (const Json* properties = node.member("properties"))
    for (const auto& [name, schema] : properties->items()) found.names.push_back(name);
  if (const Json* patterns = node.member("patternProperties"))
    for (const auto& [text, schema] : patterns->items()) found.patterns.push_back(pattern(text));
  found.all_members = found.all_members || node.contains("additionalProperties") ||
                      (depth > 0 && node.contains("unevaluatedProperties"));
  if (const Json* first = node.member("prefixItems"))
    found.items = std::max(found.items, first->size());
  if (const Json* items = node.member("items")) {
    if (items->is_array())
      found.items = std::max(found.items, items->size());
    else
      found.all_items = true;
  }
  found.all_items = found.all_items || node.contains("additionalItems") ||
                    (depth > 0 && node.contains("unevaluatedItems"));
  for (const char* keyword : {"$ref", "$dynamicRef", "$recursiveRef"})
    if (node.contains(keyword))
      collect_evaluated(document_.target(node, keyword), found, depth + 1);
  if (const Json* all = node.member("allOf"))
    for (const Json& part : *all) collect_evaluated(part, found, depth + 1);
  for (const char* keyword :
       {"anyOf", "oneOf", "if", "then", "else", "dependentSchemas", "dependencies", "contains"}) {
    const Json* value = node.member(keyword);
    if (value == nullptr) continue;
    // The set that these subschemas evaluate depends on the value. This is not supported unless
    // everything is evaluated anyway.
    Evaluated part;
    if (keyword == std::string_view("contains"))
      part.items = 1;
    else if (value->is_array() || keyword == std::string_view("dependentSchemas") ||
             keyword == std::string_view("dependencies"))
      for (const Json& item : *value) collect_evaluated(item, part, depth + 1);
    else
      collect_evaluated(*value, part, depth + 1);
    const bool members = part.all_members || !part.names.empty() || !part.patterns.empty();
    const bool items = part.all_items || part.items > 0;
    if ((members && !found.all_members) || (items && !found.all_items))
      throw Error(ErrorKind::kUnsupported, "is not supported beside {}", keyword);
  }
}

Forms Meaning::of_unevaluated(const Json& node, std::string_view keyword, bool holds) {
  const Conjunction value = literal(node[keyword], true);
  if (value.empty()) return holds ? Forms{Form()} : Forms{};
  if (!holds) throw Error(ErrorKind::kUnsupported, "is not supported where it must not hold");
  const bool members = keyword == "unevaluatedProperties";
  Evaluated found;
  collect_evaluated(node, found, 0);
  Form form;
  if (members && !found.all_members)
    form.object.rules.push_back({.pattern = nullptr,
                                 .but_names = std::move(found.names),
                                 .but_patterns = std::move(found.patterns),
                                 .value = value});
  if (!members && !found.all_items) {
    form.array.first.assign(found.items, {});
    form.array.rest = value;
  }
  return {form};
}

}  // namespace veery::schema
