#include <algorithm>

#include "text/jinja/builtins.h"
#include "text/jinja/value/strings.h"

namespace veery::jinja {
namespace {

bool markup(const Value& self) { return self.string().markup; }
Value same_kind(const Value& self, std::string text) {
  return Value(std::move(text), markup(self));
}
Value same_kind(const Value& self, std::string_view text) {
  return Value(std::string(text), markup(self));
}

List same_kind(const Value& self, const Views& parts) {
  List out;
  expect_memory(parts.size() * (sizeof(Value) + sizeof(StringObject)));
  out.reserve(parts.size());
  for (const std::string_view part : parts) out.push_back(same_kind(self, part));
  return out;
}

using Convert = std::string (*)(std::string_view);
template <Convert convert>
Value converted(Context&, const Value& self, Arguments& args) {
  Bound("str", args, {});
  return same_kind(self, convert(self.text()));
}

using Test = bool (*)(char32_t);
template <Test test>
Value all_are(Context&, const Value& self, Arguments& args) {
  Bound("str", args, {});
  return Value(all_code_points(self.text(), test));
}

using Strip = std::string_view (*)(std::string_view, std::optional<std::string_view>);
template <Strip strip>
Value stripped(Context&, const Value& self, Arguments& args) {
  const Bound bound("strip", args, {"chars"});
  std::optional<std::string_view> chars;
  if (bound.set(0) != nullptr) chars = bound.text(0);
  return same_kind(self, strip(self.text(), chars));
}

template <bool from_right>
Value split_method(Context&, const Value& self, Arguments& args) {
  const Bound bound("split", args, {"sep", "maxsplit"});
  std::optional<std::string_view> separator;
  if (bound.set(0) != nullptr) separator = bound.text(0);
  const auto limit = static_cast<int64_t>(bound.integer(1, -1));
  return Value::list(same_kind(self, from_right ? split_right(self.text(), separator, limit)
                                                : split(self.text(), separator, limit)));
}

Value splitlines_method(Context&, const Value& self, Arguments& args) {
  const Bound bound("splitlines", args, {"keepends"});
  return Value::list(same_kind(self, split_lines(self.text(), bound.flag(0))));
}

template <bool from_right>
Value partition_method(Context&, const Value& self, Arguments& args) {
  const Bound bound("partition", args, {"sep"}, 1);
  const std::string& separator = bound.text(0);
  if (separator.empty()) fail("empty separator");
  const std::string_view text = self.text();
  const size_t at = from_right ? find_last_text(text, separator) : find_text(text, separator);
  if (at == std::string_view::npos) {
    const Value nothing = same_kind(self, std::string());
    return Value::tuple(from_right ? List{nothing, nothing, self} : List{self, nothing, nothing});
  }
  return Value::tuple({same_kind(self, text.substr(0, at)), same_kind(self, separator),
                       same_kind(self, text.substr(at + separator.size()))});
}

// Returns the byte range of text[start:end], with start and end from the arguments after the first.
std::pair<size_t, size_t> byte_range(const Value& self, const Bound& bound) {
  const auto size = static_cast<Int>(self.string().length);
  const auto place = [&](size_t i, Int otherwise) {
    Int at = bound.set(i) == nullptr ? otherwise : bound.integer(i, otherwise);
    if (at < 0) at = std::max(at + size, Int{0});
    if (at > size) return self.text().size() + static_cast<size_t>(at > size);
    return byte_offset(self.text(), static_cast<size_t>(at));
  };
  const size_t begin = place(1, 0);
  return {begin, std::min(place(2, size), self.text().size())};
}

template <bool at_start>
Value starts_or_ends(Context&, const Value& self, Arguments& args) {
  const std::string_view name = at_start ? "startswith" : "endswith";
  const Bound bound(name, args, {"prefix", "start", "end"}, 1);
  const auto [begin, end] = byte_range(self, bound);
  if (begin > end) return Value(false);
  const std::string_view part = std::string_view(self.text()).substr(begin, end - begin);
  const auto fits = [&](const Value& affix) {
    if (affix.is_undefined() && !bound.at(0).is(Type::kTuple)) fail_undefined(affix);
    if (!affix.is_string())
      fail("{} first arg must be str or a tuple of str, not {}", name, type_name(affix));
    spend_copy(affix.text().size());
    return at_start ? part.starts_with(affix.text()) : part.ends_with(affix.text());
  };
  if (!bound.at(0).is(Type::kTuple)) return Value(fits(bound.at(0)));
  return Value(std::ranges::any_of(bound.at(0).items(), fits));
}

enum class Search { kFind, kFindLast, kIndex, kIndexLast };
template <Search search>
Value find_method_of(Context&, const Value& self, Arguments& args) {
  const Bound bound("find", args, {"sub", "start", "end"}, 1);
  const std::string& part = bound.text(0);
  const auto [begin, end] = byte_range(self, bound);
  size_t at = std::string_view::npos;
  if (begin <= end) {
    const std::string_view text = std::string_view(self.text()).substr(0, end);
    const bool last = search == Search::kFindLast || search == Search::kIndexLast;
    at = last ? find_last_text(text, part) : find_text(text, part, begin);
    if (last && at != std::string_view::npos && at < begin) at = std::string_view::npos;
  }
  if (at != std::string_view::npos)
    return Value(count_code_points(std::string_view(self.text()).substr(0, at)));
  if (search == Search::kIndex || search == Search::kIndexLast) fail("substring not found");
  return Value(-1);
}

Value count_method(Context&, const Value& self, Arguments& args) {
  const Bound bound("count", args, {"sub", "start", "end"}, 1);
  const std::string& part = bound.text(0);
  const auto [begin, end] = byte_range(self, bound);
  if (begin > end) return Value(0);
  return Value(count_occurrences(std::string_view(self.text()).substr(begin, end - begin), part));
}

Value replace_method(Context&, const Value& self, Arguments& args) {
  const Bound bound("replace", args, {"old", "new", "count"}, 2);
  const auto count = static_cast<int64_t>(bound.integer(2, -1));
  const std::string& by = bound.text(1);
  return same_kind(
      self, replace(self.text(), bound.text(0), markup(self) ? escaped(bound.at(1)) : by, count));
}

Value join_method(Context&, const Value& self, Arguments& args) {
  const Bound bound("join", args, {"iterable"}, 1);
  const List items = iterate(bound.at(0));
  for (size_t i = 0; i < items.size(); ++i) {
    if (!items[i].is_string() && !markup(self))
      fail("sequence item {}: expected str instance, {} found", i, type_name(items[i]));
  }
  return join_texts(self, items);
}

Value format_method(Context&, const Value& self, Arguments& args) {
  return format_braces(self, args);
}

template <char align>
Value justify(Context&, const Value& self, Arguments& args) {
  const Bound bound("justify", args, {"width", "fillchar"}, 1);
  const Int width = bound.integer(0, 0);
  const std::string fill = bound.get(1) == nullptr ? " " : bound.text(1);
  if (count_code_points(fill) != 1) fail("The fill character must be exactly one character long");
  const auto size = static_cast<Int>(self.string().length);
  const Int space = std::max(width - size, Int{0});
  if (space > Int{1} << 40) fail("the width {} is too large", integer_text(width));
  const Int left = align == '<'   ? 0
                   : align == '>' ? space
                                  : space / 2 + (space & width & 1);  // as in CPython
  const Value pad{fill};
  const std::string before = repeat(pad, left).text();
  const std::string after = repeat(pad, space - left).text();
  return same_kind(self, before + self.text() + after);
}

Value zfill_method(Context&, const Value& self, Arguments& args) {
  const Bound bound("zfill", args, {"width"}, 1);
  const Int missing = bound.integer(0, 0) - static_cast<Int>(self.string().length);
  std::string text = self.text();
  const bool sign = text.starts_with('-') || text.starts_with('+');
  if (missing > 0) text.insert(sign ? 1 : 0, repeat(Value("0"), missing).text());
  return same_kind(self, text);
}

template <bool prefix>
Value remove_affix(Context&, const Value& self, Arguments& args) {
  const Bound bound("removeprefix", args, {"affix"}, 1);
  std::string_view text = self.text();
  const std::string& affix = bound.text(0);
  spend_copy(affix.size());
  if (prefix && text.starts_with(affix)) text.remove_prefix(affix.size());
  if (!prefix && text.ends_with(affix)) text.remove_suffix(affix.size());
  return same_kind(self, text);
}

Value expandtabs_method(Context&, const Value& self, Arguments& args) {
  const Bound bound("expandtabs", args, {"tabsize"});
  const Int width = std::clamp(bound.integer(0, 8), Int{0}, Int{1} << 20);
  return same_kind(self, expand_tabs(self.text(), static_cast<size_t>(width)));
}

template <bool want_upper>
Value case_test(Context&, const Value& self, Arguments&) {
  return Value(has_case(self.text(), want_upper));
}
Value istitle_method(Context&, const Value& self, Arguments&) {
  return Value(is_title(self.text()));
}
Value isascii_method(Context&, const Value& self, Arguments&) {
  return Value(self.string().ascii());
}
Value isprintable_method(Context&, const Value& self, Arguments&) {
  return Value(self.text().empty() || all_code_points(self.text(), is_printable));
}
Value isidentifier_method(Context&, const Value& self, Arguments&) {
  const bool word = all_code_points(self.text(), is_word);
  return Value(word && !(self.text()[0] >= '0' && self.text()[0] <= '9'));
}
bool is_alnum(char32_t c) { return is_letter(c) || is_numeric(c); }

constexpr std::pair<std::string_view, Builtin> kStringMethods[] = {
    {"strip", stripped<strip>},
    {"lstrip", stripped<strip_left>},
    {"rstrip", stripped<strip_right>},
    {"split", split_method<false>},
    {"rsplit", split_method<true>},
    {"splitlines", splitlines_method},
    {"partition", partition_method<false>},
    {"rpartition", partition_method<true>},
    {"startswith", starts_or_ends<true>},
    {"endswith", starts_or_ends<false>},
    {"find", find_method_of<Search::kFind>},
    {"rfind", find_method_of<Search::kFindLast>},
    {"index", find_method_of<Search::kIndex>},
    {"rindex", find_method_of<Search::kIndexLast>},
    {"count", count_method},
    {"replace", replace_method},
    {"join", join_method},
    {"format", format_method},
    {"upper", converted<upper>},
    {"lower", converted<lower>},
    {"title", converted<title>},
    {"capitalize", converted<capitalize>},
    {"swapcase", converted<swap_case>},
    {"ljust", justify<'<'>},
    {"rjust", justify<'>'>},
    {"center", justify<'^'>},
    {"zfill", zfill_method},
    {"removeprefix", remove_affix<true>},
    {"removesuffix", remove_affix<false>},
    {"expandtabs", expandtabs_method},
    {"isalpha", all_are<is_letter>},
    {"isdigit", all_are<is_digit>},
    {"isdecimal", all_are<is_digit>},
    {"isnumeric", all_are<is_numeric>},
    {"isalnum", all_are<is_alnum>},
    {"isspace", all_are<is_space>},
    {"isupper", case_test<true>},
    {"islower", case_test<false>},
    {"istitle", istitle_method},
    {"isascii", isascii_method},
    {"isprintable", isprintable_method},
    {"isidentifier", isidentifier_method}};

template <ViewObject::Kind kind>
Value view_method(Context&, const Value& self, Arguments& args) {
  Bound("view", args, {});
  return Value(Type::kView, make_object<ViewObject>(kind, self));
}

Value get_method(Context&, const Value& self, Arguments& args) {
  const Bound bound("get", args, {"key", "default"}, 1);
  if (const Value* found = self.entries().find(bound.at(0))) return *found;
  return bound.get(1) == nullptr ? Value::none() : bound.at(1);
}

Value copy_method(Context&, const Value& self, Arguments&) { return self; }  // values are immutable

constexpr std::pair<std::string_view, Builtin> kDictMethods[] = {
    {"items", view_method<ViewObject::kItems>},
    {"keys", view_method<ViewObject::kKeys>},
    {"values", view_method<ViewObject::kValues>},
    {"get", get_method},
    {"copy", copy_method}};

Value list_index(Context&, const Value& self, Arguments& args) {
  const Bound bound("index", args, {"value", "start", "stop"}, 1);
  const List& items = self.items();
  const auto size = static_cast<Int>(items.size());
  const auto place = [&](size_t i, Int otherwise) {
    const Int at = bound.integer(i, otherwise);
    return std::clamp(at < 0 ? at + size : at, Int{0}, size);
  };
  const Int stop = place(2, size);
  Meter meter;
  for (Int i = place(1, 0); i < stop; ++i) {
    meter.add(kBytesPerStep / 4);
    if (equal(items[static_cast<size_t>(i)], bound.at(0))) return Value(i);
  }
  fail("{} is not in list", shown(repr(bound.at(0))));
}

Value list_count(Context&, const Value& self, Arguments& args) {
  const Bound bound("count", args, {"value"}, 1);
  spend_items(self.items().size());
  return Value(static_cast<size_t>(std::ranges::count_if(
      self.items(), [&](const Value& item) { return equal(item, bound.at(0)); })));
}

constexpr std::pair<std::string_view, Builtin> kListMethods[] = {
    {"index", list_index}, {"count", list_count}, {"copy", copy_method}};

Value is_integer_method(Context&, const Value& self, Arguments&) {
  return Value(self.real() == static_cast<double>(static_cast<int64_t>(self.real())));
}
constexpr std::pair<std::string_view, Builtin> kFloatMethods[] = {
    {"is_integer", is_integer_method}};

Value cycler_next(Context&, const Value& self, Arguments&) {
  auto& cycler = self.as<CyclerObject>();
  const Value out = cycler.items[cycler.position];
  cycler.position = (cycler.position + 1) % cycler.items.size();
  return out;
}
Value cycler_reset(Context&, const Value& self, Arguments&) {
  self.as<CyclerObject>().position = 0;
  return Value::none();
}
constexpr std::pair<std::string_view, Builtin> kCyclerMethods[] = {{"next", cycler_next},
                                                                   {"reset", cycler_reset}};

// Methods that modify a list or a dict; jinja2's sandbox forbids them.
bool is_refused(const Value& object, std::string_view name) {
  constexpr std::string_view kDict[] = {"clear", "pop", "popitem", "setdefault", "update"};
  constexpr std::string_view kList[] = {"append", "clear", "pop",    "reverse",
                                        "insert", "sort",  "extend", "remove"};
  if (object.is_dict()) return std::ranges::find(kDict, name) != std::end(kDict);
  return object.is(Type::kList) && std::ranges::find(kList, name) != std::end(kList);
}

Builtin lookup(const Value& object, std::string_view name) {
  switch (object.type()) {
    case Type::kString: return find_in(kStringMethods, name);
    case Type::kDict: return find_in(kDictMethods, name);
    case Type::kTuple: return name == "copy" ? nullptr : find_in(kListMethods, name);
    case Type::kList: return find_in(kListMethods, name);
    case Type::kFloat: return find_in(kFloatMethods, name);
    case Type::kCycler: return find_in(kCyclerMethods, name);
    default: return nullptr;
  }
}

std::string_view static_name(const Value& object, std::string_view name) {
  const auto in = [&](const auto& table) {
    for (const auto& [key, function] : table) {
      if (key == name) return key;
    }
    return std::string_view("method");
  };
  return object.is_string() ? in(kStringMethods)
         : object.is_dict() ? in(kDictMethods)
                            : in(kListMethods);
}

}  // namespace

bool has_method(const Value& object, std::string_view name) {
  return lookup(object, name) != nullptr || is_refused(object, name);
}

Value find_method(const Value& object, std::string_view name) {
  if (is_refused(object, name))
    return Value::undefined(
        fmt::format("access to attribute '{}' of '{}' object is unsafe.", name, type_name(object)));
  return Value(Type::kFunction, make_object<FunctionObject>(static_name(object, name),
                                                            lookup(object, name), object));
}

}  // namespace veery::jinja
