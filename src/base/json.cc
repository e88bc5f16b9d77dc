#include "base/json.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <ostream>

#include "base/error.h"
#include "base/json_reader.h"

namespace veery {
namespace {

using Library = nlohmann::ordered_json;

[[noreturn]] void fail_type(const char* expected, const Json& found) {
  throw Error(ErrorKind::kFormat, "expected {}, found {}", expected, found.type_name());
}

Library to_library(const Json& value) {
  switch (value.type()) {
    case Json::Type::kNull: return nullptr;
    case Json::Type::kBool: return value.boolean();
    case Json::Type::kInteger: return value.get<int64_t>();
    case Json::Type::kUnsigned: return value.get<uint64_t>();
    case Json::Type::kFloat: return value.number();
    case Json::Type::kString: return value.string();
    case Json::Type::kArray: {
      Library items = Library::array();
      for (const Json& item : value) items.push_back(to_library(item));
      return items;
    }
    case Json::Type::kObject: {
      Library::object_t members;
      for (const auto& [key, item] : value.items()) members.emplace_back(key, to_library(item));
      return members;
    }
  }
  return nullptr;
}

}  // namespace

Json::Json(const char* text) : value_(std::string(text)) {}
Json::Json(std::string text) : value_(std::move(text)) {}
Json::Json(std::string_view text) : value_(std::string(text)) {}
Json::Json(const Json& other) = default;
Json::Json(Json&& other) noexcept : value_(std::exchange(other.value_, {})) {}
// Copies first, because `other` may be a part of *this.
Json& Json::operator=(const Json& other) { return *this = Json(other); }
Json& Json::operator=(Json&& other) noexcept {
  value_ = std::exchange(other.value_, {});
  return *this;
}
Json::~Json() = default;

Json::Json(std::initializer_list<Json> items) {
  const bool pairs = std::ranges::all_of(items, [](const Json& item) {
    return item.is_array() && item.size() == 2 && item.front().is_string();
  });
  *this = pairs ? object(items) : array(items);
}

Json Json::array() {
  Json value;
  value.value_ = std::vector<Json>();
  return value;
}
Json Json::array(std::initializer_list<Json> items) {
  Json value;
  value.value_ = std::vector<Json>(items);
  return value;
}
Json Json::object() {
  Json value;
  value.value_ = MemberList();
  return value;
}
Json Json::object(std::vector<Member> members) {
  MemberList list;
  for (Member& member : members) list.push_back(std::make_unique<Member>(std::move(member)));
  Json value;
  value.value_ = std::move(list);
  return value;
}
Json Json::object(std::initializer_list<Json> members) {
  Json value = object();
  for (const Json& member : members) value[member.at(0).string()] = member.at(1);
  return value;
}

Json::MemberList::MemberList(const MemberList& other) : std::vector<std::unique_ptr<Member>>() {
  reserve(other.size());
  for (const auto& member : other) push_back(std::make_unique<Member>(*member));
}
Json::MemberList::MemberList(MemberList&& other) noexcept = default;
Json::MemberList& Json::MemberList::operator=(const MemberList& other) {
  return *this = MemberList(other);
}
Json::MemberList& Json::MemberList::operator=(MemberList&& other) noexcept = default;
Json::MemberList::~MemberList() = default;
Json::Member* Json::MemberList::find(std::string_view key) const {
  for (const auto& member : *this)
    if (member->key == key) return member.get();
  return nullptr;
}

const char* Json::type_name() const {
  switch (type()) {
    case Type::kNull: return "null";
    case Type::kBool: return "boolean";
    case Type::kInteger:
    case Type::kUnsigned:
    case Type::kFloat: return "number";
    case Type::kString: return "string";
    case Type::kArray: return "array";
    case Type::kObject: return "object";
  }
  return "nothing";
}

bool Json::is_number_unsigned() const {
  const int64_t* integer = std::get_if<int64_t>(&value_);
  return type() == Type::kUnsigned || (integer != nullptr && *integer >= 0);
}

bool Json::is_integer_in(int64_t least, int64_t most) const {
  if (const int64_t* integer = std::get_if<int64_t>(&value_))
    return *integer >= least && *integer <= most;
  const uint64_t* natural = std::get_if<uint64_t>(&value_);
  return natural != nullptr && most >= 0 && *natural <= static_cast<uint64_t>(most) &&
         (least <= 0 || *natural >= static_cast<uint64_t>(least));
}

const std::string& Json::string() const {
  if (!is_string()) fail_type("a string", *this);
  return std::get<std::string>(value_);
}
bool Json::boolean() const {
  if (!is_boolean()) fail_type("true or false", *this);
  return std::get<bool>(value_);
}
double Json::number() const {
  if (const double* value = std::get_if<double>(&value_)) return *value;
  if (const int64_t* value = std::get_if<int64_t>(&value_)) return static_cast<double>(*value);
  if (const uint64_t* value = std::get_if<uint64_t>(&value_)) return static_cast<double>(*value);
  fail_type("a number", *this);
}

int64_t Json::integer(int64_t least, int64_t most) const {
  constexpr double kAbove = 9223372036854775808.0;  // 2^63
  bool fits = true;
  int64_t value = 0;
  if (const int64_t* integer = std::get_if<int64_t>(&value_)) {
    value = *integer;
  } else if (const uint64_t* natural = std::get_if<uint64_t>(&value_)) {
    fits = *natural <= static_cast<uint64_t>(INT64_MAX);
    value = static_cast<int64_t>(*natural);
  } else {
    const double real = number();
    fits = real >= -kAbove && real < kAbove;
    value = fits ? static_cast<int64_t>(real) : 0;
  }
  if (!fits || value < least || value > most)
    throw Error(ErrorKind::kFormat, "expected a number from {} to {}, found {}", least, most,
                dump_json(*this));
  return value;
}
uint64_t Json::natural(uint64_t most) const {
  constexpr double kAbove = 18446744073709551616.0;  // 2^64
  bool fits = true;
  uint64_t value = 0;
  if (const uint64_t* natural = std::get_if<uint64_t>(&value_)) {
    value = *natural;
  } else if (const int64_t* integer = std::get_if<int64_t>(&value_)) {
    fits = *integer >= 0;
    value = static_cast<uint64_t>(*integer);
  } else {
    const double real = number();
    fits = real >= 0 && real < kAbove;
    value = fits ? static_cast<uint64_t>(real) : 0;
  }
  if (!fits || value > most)
    throw Error(ErrorKind::kFormat, "expected a number from 0 to {}, found {}", most,
                dump_json(*this));
  return value;
}

void Json::fail_array() const { fail_type("an array", *this); }

size_t Json::size() const {
  if (const auto* items = std::get_if<std::vector<Json>>(&value_)) return items->size();
  if (const auto* members = std::get_if<MemberList>(&value_)) return members->size();
  return is_null() ? 0 : 1;
}

Json& Json::operator[](std::string_view key) {
  if (is_null()) value_ = MemberList();
  if (!is_object()) fail_type("an object", *this);
  auto& members = std::get<MemberList>(value_);
  if (Member* found = members.find(key)) return found->value;
  return members.emplace_back(std::make_unique<Member>(Member{std::string(key), {}}))->value;
}
const Json* Json::member(std::string_view key) const {
  const auto* members = std::get_if<MemberList>(&value_);
  const Member* found = members != nullptr ? members->find(key) : nullptr;
  return found != nullptr ? &found->value : nullptr;
}
const Json& Json::at(std::string_view key) const {
  if (!is_object()) fail_type("an object", *this);
  if (const Json* found = member(key)) return *found;
  throw Error(ErrorKind::kFormat, "missing member '{}'", key);
}
Json& Json::at(std::string_view key) { return const_cast<Json&>(std::as_const(*this).at(key)); }

std::pair<const Json*, const std::unique_ptr<Json::Member>*> Json::place(size_t index) const {
  if (const auto* items = std::get_if<std::vector<Json>>(&value_))
    return {items->data() + index, nullptr};
  if (const auto* members = std::get_if<MemberList>(&value_))
    return {nullptr, members->data() + index};
  return {this + index, nullptr};
}
Json::const_iterator Json::begin() const {
  const auto [item, member] = place(0);
  return {item, member};
}
Json::const_iterator Json::end() const {
  const auto [item, member] = place(size());
  return {item, member};
}
Json::iterator Json::begin() {
  const auto [item, member] = place(0);
  return {item, member};
}
Json::iterator Json::end() {
  const auto [item, member] = place(size());
  return {item, member};
}
Json::const_iterator Json::find(std::string_view key) const {
  const_iterator at = begin();
  while (at != end() && !(is_object() && at.key() == key)) ++at;
  return at;
}
Json::iterator Json::find(std::string_view key) {
  iterator at = begin();
  while (at != end() && !(is_object() && at.key() == key)) ++at;
  return at;
}
void Json::update(const Json& other) {
  for (const auto& [key, item] : other.items()) (*this)[key] = item;
}
size_t Json::erase(std::string_view key) {
  auto* members = std::get_if<MemberList>(&value_);
  if (members == nullptr) return 0;
  return std::erase_if(*members, [key](const auto& member) { return member->key == key; });
}
void Json::erase(size_t index) {
  at(index);  // throws if there is no such item
  auto& items = std::get<std::vector<Json>>(value_);
  items.erase(items.begin() + static_cast<ptrdiff_t>(index));
}
Json::Members Json::items() const {
  if (!is_object()) fail_type("an object", *this);
  return {begin(), end()};
}

const Json& Json::at(size_t index) const {
  const auto* items = std::get_if<std::vector<Json>>(&value_);
  if (items == nullptr) fail_type("an array", *this);
  if (index >= items->size())
    throw Error(ErrorKind::kFormat, "expected more than {} items, found {}", index, items->size());
  return (*items)[index];
}
Json& Json::at(size_t index) { return const_cast<Json&>(std::as_const(*this).at(index)); }

void Json::push_back(Json item) { emplace_back(std::move(item)); }
Json& Json::emplace_back(Json item) {
  if (is_null()) value_ = std::vector<Json>();
  if (!is_array()) fail_array();
  return std::get<std::vector<Json>>(value_).emplace_back(std::move(item));
}
void Json::push_front(Json item) {
  push_back(std::move(item));
  auto& items = std::get<std::vector<Json>>(value_);
  std::rotate(items.begin(), items.end() - 1, items.end());
}

bool operator==(const Json& a, const Json& b) {
  if (a.is_number() && b.is_number()) {
    if (a.is_number_float() || b.is_number_float()) return a.number() == b.number();
    if (a.is_number_unsigned() != b.is_number_unsigned()) return false;
    return a.is_number_unsigned() ? a.get<uint64_t>() == b.get<uint64_t>()
                                  : a.get<int64_t>() == b.get<int64_t>();
  }
  if (a.type() != b.type() || a.size() != b.size()) return false;
  switch (a.type()) {
    case Json::Type::kBool: return a.boolean() == b.boolean();
    case Json::Type::kString: return a.string() == b.string();
    case Json::Type::kArray: return std::equal(a.begin(), a.end(), b.begin());
    case Json::Type::kObject:
      return std::ranges::all_of(a.items(), [&b](const Json::Member& member) {
        const Json* other = b.member(member.key);
        return other != nullptr && *other == member.value;
      });
    default: return true;
  }
}

std::ostream& operator<<(std::ostream& out, const Json& value) { return out << dump_json(value); }

Json parse_json(std::string_view text, const std::string& what, int max_depth) {
  JsonReader reader(text, what, max_depth);
  Json value = reader.value();
  reader.finish();
  return value;
}

std::optional<Json> maybe_json(std::string_view text) {
  try {
    return parse_json(text, "text");
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::kFormat) throw;
    return std::nullopt;
  }
}

std::string dump_json(const Json& value, int indent) {
  return to_library(value).dump(indent, ' ', false, Library::error_handler_t::replace);
}

}  // namespace veery
