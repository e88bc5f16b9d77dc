#include "text/grammar/schema/form.h"

#include <algorithm>
#include <iterator>
#include <set>
#include <string_view>

namespace veery::schema {
namespace {

Language both_languages(const Language& a, const Language& b) {
  if (!a || a == b) return b;
  if (!b) return a;
  return std::make_shared<const Dfa>(intersect(*a, *b));
}

int64_t lower(int64_t a, int64_t b) { return a < 0 ? b : b < 0 ? a : std::min(a, b); }

template <typename T>
void append(std::vector<T>& to, const std::vector<T>& from) {
  to.insert(to.end(), from.begin(), from.end());
}

int64_t code_points(std::string_view text) {
  return std::ranges::count_if(
      text, [](char c) { return (static_cast<unsigned char>(c) & 0xC0) != 0x80; });
}

NumberForm both_numbers(const NumberForm& a, const NumberForm& b, bool& empty) {
  NumberForm form;
  form.language = both_languages(a.language, b.language);
  form.digits = a.digits;
  form.digits.whole = std::max(a.digits.whole, b.digits.whole);
  form.digits.decimals = std::max(a.digits.decimals, b.digits.decimals);
  form.values = a.values ? a.values : b.values;
  if (form.values) {
    std::set<std::string_view> others;
    if (b.values)
      for (const auto& [plain, written] : *b.values) others.insert(plain);
    std::erase_if(*form.values, [&](const auto& value) {
      return (b.values && !others.contains(value.first)) ||
             (form.language && !form.language->accepts(value.first));
    });
    form.language = nullptr;
    empty = form.values->empty();
  } else {
    empty = form.language && form.language->empty();
  }
  return form;
}

StringForm both_strings(const StringForm& a, const StringForm& b, bool& empty) {
  StringForm form;
  form.language = both_languages(a.language, b.language);
  form.least = std::max(a.least, b.least);
  form.most = lower(a.most, b.most);
  form.formats = a.formats;
  for (const Language& format : b.formats)
    if (std::ranges::find(form.formats, format) == form.formats.end())
      form.formats.push_back(format);
  std::optional<std::vector<std::string>> values = a.values ? a.values : b.values;
  empty = form.most >= 0 && form.least > form.most;
  if (values) {
    std::set<std::string_view> others;
    if (b.values) others.insert(b.values->begin(), b.values->end());
    std::erase_if(*values, [&](const std::string& value) {
      return (b.values && !others.contains(value)) || !holds(form, value);
    });
    form = {.values = std::move(values)};
    empty = form.values->empty();
  } else if (form.language && form.language->empty()) {
    empty = true;
  }
  return form;
}

ArrayForm both_arrays(const ArrayForm& a, const ArrayForm& b, bool& empty) {
  ArrayForm form;
  const size_t first = std::max(a.first.size(), b.first.size());
  const auto item = [](const ArrayForm& of, size_t i) -> const Conjunction& {
    return i < of.first.size() ? of.first[i] : of.rest;
  };
  for (size_t i = 0; i < first; ++i) form.first.push_back(both(item(a, i), item(b, i)));
  form.rest = both(a.rest, b.rest);
  form.least = std::max(a.least, b.least);
  form.most = lower(a.most, b.most);
  form.contains = a.contains;
  for (const ArrayForm::Contains& contains : b.contains)
    if (std::ranges::find(form.contains, contains) == form.contains.end())
      form.contains.push_back(contains);
  form.unique = a.unique || b.unique;
  empty = form.most >= 0 && form.least > form.most;
  return form;
}

ObjectForm both_objects(const ObjectForm& a, const ObjectForm& b, bool& empty) {
  ObjectForm form = a;
  for (const ObjectForm::Property& property : b.properties) {
    if (ObjectForm::Property* same = form.find(property.name)) {
      same->value = both(same->value, property.value);
      same->required = same->required || property.required;
    } else {
      form.properties.push_back(property);
    }
  }
  append(form.rules, b.rules);
  append(form.some, b.some);
  append(form.names, b.names);
  form.least = std::max(a.least, b.least);
  form.most = lower(a.most, b.most);
  form.described = a.described || b.described;
  const auto required = std::ranges::count_if(form.properties, &ObjectForm::Property::required);
  empty = form.most >= 0 && std::max<int64_t>(form.least, required) > form.most;
  for (const ObjectForm::Property& property : form.properties)
    empty = empty || (property.required && property.value == kNever);
  return form;
}

}  // namespace

Conjunction both(const Conjunction& a, const Conjunction& b) {
  Conjunction all;
  std::ranges::set_union(a, b, std::back_inserter(all));
  for (size_t i = 0; i + 1 < all.size(); ++i)
    if ((all[i] ^ 1) == all[i + 1]) return kNever;
  return !all.empty() && all.front() == 1 ? kNever : all;
}

bool ObjectForm::Rule::covers(const std::string& name) const {
  if (pattern) return pattern->accepts(name);
  if (std::ranges::find(but_names, name) != but_names.end()) return false;
  return std::ranges::none_of(but_patterns, [&](const Language& l) { return l->accepts(name); });
}

ObjectForm::Property* ObjectForm::find(const std::string& name) {
  const auto found = std::ranges::find(properties, name, &Property::name);
  return found == properties.end() ? nullptr : &*found;
}

void ObjectForm::require(const std::string& name) {
  if (Property* property = find(name))
    property->required = true;
  else
    properties.push_back({.name = name, .value = {}, .required = true});
}

Form both(const Form& a, const Form& b) {
  Form form;
  form.types = a.types & b.types;
  bool empty = false;
  const auto drop = [&](uint8_t type) {
    if (empty) form.types = static_cast<uint8_t>(form.types & ~type);
    empty = false;
  };
  if (form.types & kNumber) form.number = both_numbers(a.number, b.number, empty), drop(kNumber);
  if (form.types & kString) form.string = both_strings(a.string, b.string, empty), drop(kString);
  if (form.types & kArray) form.array = both_arrays(a.array, b.array, empty), drop(kArray);
  if (form.types & kObject) form.object = both_objects(a.object, b.object, empty), drop(kObject);
  return form;
}

Dfa language_of(const StringForm& form) {
  if (form.values) return Dfa::words(*form.values);
  Dfa language = form.language ? *form.language : Dfa::all();
  for (const Language& format : form.formats) language = intersect(language, *format);
  return language;
}

bool holds(const StringForm& form, const std::string& text) {
  const int64_t length = code_points(text);
  return length >= form.least && (form.most < 0 || length <= form.most) &&
         (!form.language || form.language->accepts(text)) &&
         (!form.values || std::ranges::find(*form.values, text) != form.values->end());
}

}  // namespace veery::schema
