#include "text/grammar/schema/meaning.h"

#include <algorithm>

#include "base/error.h"
#include "base/printable.h"

namespace veery::schema {
namespace {

constexpr size_t kMostForms = 1024;     // forms of one conjunction
constexpr size_t kMostSpent = 300'000;  // combined pairs of forms in one schema
constexpr int kDisjointDepth = 8;       // depth of the search when proving disjointness

enum class Group { kType, kValues, kNumber, kString, kObject, kArray, kUnevaluated, kApplicator };
// Cheap and restrictive keywords first.
constexpr std::pair<std::string_view, Group> kKeywords[] = {
    {"type", Group::kType},
    {"const", Group::kValues},
    {"enum", Group::kValues},
    {"minimum", Group::kNumber},
    {"maximum", Group::kNumber},
    {"exclusiveMinimum", Group::kNumber},
    {"exclusiveMaximum", Group::kNumber},
    {"multipleOf", Group::kNumber},
    {"minLength", Group::kString},
    {"maxLength", Group::kString},
    {"pattern", Group::kString},
    {"format", Group::kString},
    {"properties", Group::kObject},
    {"patternProperties", Group::kObject},
    {"additionalProperties", Group::kObject},
    {"required", Group::kObject},
    {"minProperties", Group::kObject},
    {"maxProperties", Group::kObject},
    {"propertyNames", Group::kObject},
    {"dependentRequired", Group::kObject},
    {"prefixItems", Group::kArray},
    {"items", Group::kArray},
    {"additionalItems", Group::kArray},
    {"minItems", Group::kArray},
    {"maxItems", Group::kArray},
    {"uniqueItems", Group::kArray},
    {"contains", Group::kArray},
    {"unevaluatedProperties", Group::kUnevaluated},
    {"unevaluatedItems", Group::kUnevaluated},
    {"$ref", Group::kApplicator},
    {"$dynamicRef", Group::kApplicator},
    {"$recursiveRef", Group::kApplicator},
    {"allOf", Group::kApplicator},
    {"anyOf", Group::kApplicator},
    {"oneOf", Group::kApplicator},
    {"not", Group::kApplicator},
    {"if", Group::kApplicator},
    {"dependentSchemas", Group::kObject},
    {"dependencies", Group::kObject},
};

bool free_of(const Form& form, uint8_t type) {
  switch (type) {
    case kNumber: return !form.number.language && !form.number.values;
    case kString:
      return !form.string.language && !form.string.values && form.string.least == 0 &&
             form.string.most < 0 && form.string.formats.empty();
    case kArray:
      return form.array.first.empty() && form.array.rest.empty() && form.array.least == 0 &&
             form.array.most < 0 && form.array.contains.empty() && !form.array.unique;
    case kObject:
      return form.object.properties.empty() && form.object.rules.empty() &&
             form.object.some.empty() && form.object.names.empty() && form.object.least == 0 &&
             form.object.most < 0 && !form.object.described;
    default: return true;
  }
}

}  // namespace

Forms simplified(Forms forms) {
  uint8_t free = 0;
  for (const Form& form : forms)
    for (int bit = 1; bit < kAllTypes; bit *= 2)
      if ((form.types & bit) != 0 && free_of(form, static_cast<uint8_t>(bit)))
        free = static_cast<uint8_t>(free | bit);
  Forms result;
  if (free != 0) result.push_back({.types = free});
  for (Form& form : forms) {
    form.types = static_cast<uint8_t>(form.types & ~free);
    if (form.types != 0) result.push_back(std::move(form));
  }
  return result;
}

void append_forms(Forms& to, Forms from) {
  to.insert(to.end(), std::make_move_iterator(from.begin()), std::make_move_iterator(from.end()));
}

int64_t count_of(const Json& value) {
  if (value.is_number_float() && value.number() >= 0 && value.number() < 1e15 &&
      value.number() == static_cast<double>(static_cast<int64_t>(value.number())))
    return static_cast<int64_t>(value.number());
  if (!value.is_integer_in(0, INT64_MAX / 4))
    throw Error(ErrorKind::kInput, "is {}, expected a number of at least 0",
                printable(dump_json(value), 40));
  return value.get<int64_t>();
}

Meaning::Meaning(const Json& root) : document_(root) {}

// Prepends the location to errors thrown while a keyword is read.
template <typename Use>
auto Meaning::named(const Json& node, std::string_view keyword, const Use& use) {
  try {
    return use();
  } catch (const Error& error) {
    if (std::string_view(error.what()).starts_with("schema: ")) throw;
    throw Error(error.kind(), "schema: {}.{}: {}", document_.place(node), keyword, error.what());
  }
}

void Meaning::spend(size_t forms) {
  spent_ += forms;
  if (spent_ > kMostSpent)
    throw Error(ErrorKind::kLimit, "schema: combining its alternatives takes more than {} steps",
                kMostSpent);
}

Conjunction Meaning::literal(const Json& node, bool holds) {
  if (node.is_boolean()) return node.boolean() == holds ? Conjunction{} : kNever;
  if (node.is_object() && node.empty()) return holds ? Conjunction{} : kNever;
  const auto [place, fresh] = numbers_.try_emplace(&node, static_cast<int32_t>(subschemas_.size()));
  if (fresh) subschemas_.push_back(&node);
  return {2 * place->second + (holds ? 0 : 1)};
}

std::string Meaning::place(const Conjunction& conjunction) const {
  for (const int32_t literal : conjunction)
    if (literal > 1) return document_.place(*subschemas_[static_cast<size_t>(literal / 2)]);
  return "$";
}

const Forms& Meaning::literal_forms(int32_t literal) {
  if (const auto known = literal_forms_.find(literal); known != literal_forms_.end())
    return known->second;
  const Json& node = *subschemas_[static_cast<size_t>(literal / 2)];
  if (!open_.insert(literal).second || open_.size() > 200)
    throw Error(ErrorKind::kInput, "schema: {} refers to itself without end",
                document_.place(node));
  Forms forms = compute(node, literal % 2 == 0);
  open_.erase(literal);
  return literal_forms_.emplace(literal, std::move(forms)).first->second;
}

const Forms& Meaning::forms(const Conjunction& conjunction) {
  if (const auto known = forms_.find(conjunction); known != forms_.end()) return known->second;
  Forms forms{Form()};
  for (const int32_t literal : conjunction) {
    if (literal == 1) forms.clear();
    if (literal > 1 && !forms.empty()) forms = intersect_forms(forms, literal_forms(literal));
  }
  return forms_.emplace(conjunction, std::move(forms)).first->second;
}

Forms Meaning::intersect_forms(const Forms& a, const Forms& b) {
  spend(a.size() * b.size());
  Forms result;
  for (const Form& x : a)
    for (const Form& y : b) {
      Form form = both(x, y);
      if (form.types != 0) result.push_back(std::move(form));
    }
  result = simplified(std::move(result));
  if (result.size() > kMostForms)
    throw Error(ErrorKind::kLimit, "schema: its alternatives combine to more than {} forms",
                kMostForms);
  return result;
}

Forms Meaning::compute(const Json& node, bool holds) {
  spend(1);
  if (node.is_boolean()) return node.boolean() == holds ? Forms{Form()} : Forms{};
  return holds ? holding(node) : failing(node);
}

namespace {

// Returns whether the keyword is evaluated together with another keyword of the same node.
bool belongs_to_another(const Json& node, std::string_view keyword) {
  const auto has = [&](std::string_view key) { return node.contains(key); };
  if (keyword == "patternProperties") return has("properties");
  if (keyword == "additionalProperties") return has("properties") || has("patternProperties");
  if (keyword == "items") return has("prefixItems") && !node["items"].is_array();
  if (keyword == "additionalItems") return true;
  return false;
}

}  // namespace

Forms Meaning::holding(const Json& node) {
  Forms forms{Form()};
  for (const auto& [keyword, group] : kKeywords) {
    if (!node.contains(keyword) || belongs_to_another(node, keyword)) continue;
    const Forms more = named(node, keyword, [&] {
      switch (group) {
        case Group::kType: return of_type(node[keyword], true);
        case Group::kValues:
          return of_values(keyword == "enum" ? node[keyword] : Json::array({node[keyword]}), true);
        case Group::kNumber: return of_number(node, keyword, true);
        case Group::kString: return of_string(node, keyword, true);
        case Group::kObject: return of_object(node, keyword, true);
        case Group::kArray: return of_array(node, keyword, true);
        case Group::kUnevaluated: return of_unevaluated(node, keyword, true);
        default: return of_applicator(node, keyword, true);
      }
    });
    forms = intersect_forms(forms, more);
    if (forms.empty()) break;
  }
  return forms;
}

// Returns the values for which at least one keyword fails.
Forms Meaning::failing(const Json& node) {
  Forms forms;
  for (const auto& [keyword, group] : kKeywords) {
    if (!node.contains(keyword) || belongs_to_another(node, keyword)) continue;
    append_forms(forms, named(node, keyword, [&] {
                   switch (group) {
                     case Group::kType: return of_type(node[keyword], false);
                     case Group::kValues:
                       return of_values(
                           keyword == "enum" ? node[keyword] : Json::array({node[keyword]}), false);
                     case Group::kNumber: return of_number(node, keyword, false);
                     case Group::kString: return of_string(node, keyword, false);
                     case Group::kObject: return of_object(node, keyword, false);
                     case Group::kArray: return of_array(node, keyword, false);
                     case Group::kUnevaluated: return of_unevaluated(node, keyword, false);
                     default: return of_applicator(node, keyword, false);
                   }
                 }));
  }
  return simplified(std::move(forms));
}

Forms Meaning::of_all(const Json& parts, bool all, bool holds) {
  if (!parts.is_array() || parts.empty())
    throw Error(ErrorKind::kInput, "expected a non-empty list");
  // De Morgan: "not all hold" means that one fails, "none holds" that all fail.
  if (all == holds) {
    Forms forms{Form()};
    for (const Json& part : parts) {
      forms = intersect_forms(forms, this->forms(literal(part, holds)));
      if (forms.empty()) break;
    }
    return forms;
  }
  Forms forms;
  for (const Json& part : parts) append_forms(forms, this->forms(literal(part, holds)));
  return simplified(std::move(forms));
}

Forms Meaning::of_applicator(const Json& node, std::string_view keyword, bool holds) {
  const Json& value = node[keyword];
  if (keyword == "allOf") return of_all(value, true, holds);
  if (keyword == "anyOf") return of_all(value, false, holds);
  if (keyword == "oneOf") return of_one(value, holds);
  if (keyword == "not") return forms(literal(value, !holds));
  if (keyword == "if") return of_condition(node, holds);
  return forms(literal(document_.target(node, keyword), holds));
}

Forms Meaning::of_condition(const Json& node, bool holds) {
  const auto part = [&](const char* key) {
    const Json* found = node.member(key);
    return found == nullptr ? (holds ? Conjunction{} : kNever) : literal(*found, holds);
  };
  const Conjunction then = part("then"), otherwise = part("else");
  Forms result;
  if (then != kNever) result = forms(both(literal(node["if"], true), then));
  if (otherwise != kNever) append_forms(result, forms(both(literal(node["if"], false), otherwise)));
  return simplified(std::move(result));
}

// Exactly one alternative holds. Complements are only needed for alternatives that overlap.
Forms Meaning::of_one(const Json& alternatives, bool holds) {
  if (!alternatives.is_array() || alternatives.empty())
    throw Error(ErrorKind::kInput, "expected a non-empty list");
  const size_t count = alternatives.size();
  std::vector<Conjunction> one;
  for (const Json& item : alternatives) one.push_back(literal(item, true));
  std::vector<std::vector<size_t>> meets(count);
  Forms several;
  for (size_t i = 0; i < count; ++i)
    for (size_t j = 0; j < i; ++j) {
      const Forms shared = intersect_forms(forms(one[i]), forms(one[j]));
      if (!may_hold(shared, kDisjointDepth)) continue;
      meets[i].push_back(j), meets[j].push_back(i);
      if (!holds) append_forms(several, shared);
    }
  if (!holds) {
    append_forms(several, of_all(alternatives, false, false));
    return simplified(std::move(several));
  }
  Forms result;
  for (size_t i = 0; i < count; ++i) {
    Forms only = forms(one[i]);
    for (const size_t j : meets[i]) {
      if (only.empty()) break;
      only = intersect_forms(only, forms(literal(alternatives[j], false)));
    }
    append_forms(result, std::move(only));
  }
  return simplified(std::move(result));
}

bool Meaning::may_hold(const Forms& forms, int depth) {
  return std::ranges::any_of(forms, [&](const Form& form) { return may_hold(form, depth); });
}

// May return true for an empty conjunction; false is always correct.
bool Meaning::may_hold(const Conjunction& conjunction, int depth) {
  if (conjunction == kNever) return false;
  if (depth == 0) return true;
  for (const int32_t literal : conjunction)
    if (open_.contains(literal)) return true;
  spend(1);
  return may_hold(forms(conjunction), depth - 1);
}

bool Meaning::may_hold(const Form& form, int depth) {
  if ((form.types & (kNull | kTrue | kFalse | kNumber)) != 0) return true;
  if (form.types & kString) {
    const StringForm& string = form.string;
    if (string.values || !string.language || string.most < 0) return true;
    if (string.language->shortest().value_or(INT64_MAX) <= string.most) return true;
  }
  return ((form.types & kArray) != 0 && may_hold_array(form.array, depth)) ||
         ((form.types & kObject) != 0 && may_hold_object(form.object, depth));
}

bool Meaning::may_hold_array(const ArrayForm& form, int depth) {
  for (size_t i = 0; i < form.first.size() && std::cmp_less(i, form.least); ++i)
    if (!may_hold(form.first[i], depth)) return false;
  if (form.least > std::ssize(form.first) && !may_hold(form.rest, depth)) return false;
  for (const ArrayForm::Contains& contains : form.contains) {
    if (contains.least == 0) continue;
    bool some = may_hold(both(form.rest, contains.item), depth);
    for (const Conjunction& item : form.first)
      some = some || may_hold(both(item, contains.item), depth);
    if (!some) return false;
  }
  return true;
}

bool Meaning::may_hold_object(const ObjectForm& form, int depth) {
  for (const ObjectForm::Property& property : form.properties) {
    if (!property.required) continue;
    for (const Language& names : form.names)
      if (!names->accepts(property.name)) return false;
    Conjunction value = property.value;
    for (const ObjectForm::Rule& rule : form.rules)
      if (rule.covers(property.name)) value = both(value, rule.value);
    if (!may_hold(value, depth)) return false;
  }
  return true;
}

Dfa Meaning::strings(const Conjunction& conjunction) {
  Dfa all = Dfa::none();
  for (const Form& form : forms(conjunction)) {
    if ((form.types & kString) == 0) continue;
    StringForm string = form.string;
    string.formats.clear();
    Dfa language = language_of(string);
    if (!string.values && (string.least > 0 || string.most >= 0))
      language = with_length(language, string.least, string.most);
    all = unite(all, language);
  }
  return all;
}

}  // namespace veery::schema
