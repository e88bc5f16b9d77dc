#include <algorithm>
#include <cmath>

#include "text/jinja/builtins.h"
#include "text/jinja/value/strings.h"

namespace veery::jinja {
namespace {

// jinja2's soft_str(): converts to text; markup stays markup.
Value soft(const Value& value) { return value.is_string() ? value : Value(to_text(value)); }
Value like(const Value& text, std::string made) {
  return Value(std::move(made), text.string().markup);
}

using Convert = std::string (*)(std::string_view);
template <Convert convert>
Value converted(Context&, const Value& value, Arguments& args) {
  Bound("filter", args, {});
  const Value text = soft(value);
  return like(text, convert(text.text()));
}

Value filter_trim(Context&, const Value& value, Arguments& args) {
  const Bound bound("trim", args, {"chars"});
  std::optional<std::string_view> chars;
  if (bound.set(0) != nullptr) chars = bound.text(0);
  const Value text = soft(value);
  return like(text, std::string(strip(text.text(), chars)));
}

Value filter_replace(Context&, const Value& value, Arguments& args) {
  const Bound bound("replace", args, {"old", "new", "count"}, 2);
  const Int count = bound.set(2) == nullptr ? -1 : bound.integer(2, -1);
  return Value(replace(to_text(value), to_text(bound.at(0)), to_text(bound.at(1)),
                       static_cast<int64_t>(count)));
}

Value filter_string(Context&, const Value& value, Arguments&) { return soft(value); }
Value filter_safe(Context&, const Value& value, Arguments&) { return Value(to_text(value), true); }
Value filter_escape(Context&, const Value& value, Arguments&) {
  return Value(escaped(value), true);
}
Value filter_forceescape(Context&, const Value& value, Arguments&) {
  return Value(escape_html(to_text(value)), true);
}
Value filter_striptags(Context&, const Value& value, Arguments&) {
  return Value(strip_tags(to_text(value)));
}

Value filter_center(Context& context, const Value& value, Arguments& args) {
  Arguments width;
  const Bound bound("center", args, {"width"});
  width.positional.emplace_back(bound.integer(0, 80));
  const Value text = soft(value);
  return find_method(text, "center").as<FunctionObject>().function(context, text, width);
}

Value filter_format(Context&, const Value& value, Arguments& args) {
  if (!args.positional.empty() && !args.keyword.empty())
    fail("can't handle positional and keyword arguments at the same time");
  if (args.keyword.empty()) return format_percent(soft(value), Value::tuple(args.positional));
  auto dict = std::make_shared<DictObject>();
  for (const auto& [name, argument] : args.keyword) dict->set(Value(name), argument);
  return format_percent(soft(value), Value::dict(std::move(dict)));
}

Value filter_indent(Context&, const Value& value, Arguments& args) {
  const Bound bound("indent", args, {"width", "first", "blank"});
  if (value.is_undefined()) fail_undefined(value);
  if (!value.is_string())
    fail("unsupported operand type(s) for +=: '{}' and 'str'", type_name(value));
  const Value indention = bound.get(0) != nullptr && bound.at(0).is_string()
                              ? bound.at(0)
                              : repeat(Value(" "), bound.integer(0, 4));
  expect_memory(value.text().size());
  const std::string text = value.text() + "\n";
  Builder out;
  bool first = true;
  for (const std::string_view line : split_lines(text)) {
    if (!first) out.append('\n');
    if (first ? bound.flag(1) : bound.flag(2) || !line.empty()) out.append(indention.text());
    out.append(line);
    first = false;
  }
  return like(value, out.take());
}

Value filter_truncate(Context&, const Value& value, Arguments& args) {
  const Bound bound("truncate", args, {"length", "killwords", "end", "leeway"});
  const Int wanted = bound.integer(0, 255);
  const std::string end = bound.get(2) == nullptr ? "..." : bound.text(2);
  const Int leeway = bound.set(3) == nullptr ? 5 : bound.integer(3, 5);
  const auto end_size = static_cast<Int>(count_code_points(end));
  if (wanted < end_size) fail("truncate: the length is less than the length of `end`");
  if (leeway < 0) fail("truncate: negative leeway");
  if (static_cast<Int>(length(value)) <= wanted + leeway) return value;
  if (!value.is_string()) fail("truncate: expected str, got {}", type_name(value));
  std::string_view text = value.text();
  text = text.substr(0, byte_offset(text, static_cast<size_t>(wanted - end_size)));
  if (!bound.flag(1)) text = text.substr(0, text.rfind(' '));
  return like(value, std::string(text) + end);
}

Value filter_wordcount(Context&, const Value& value, Arguments&) {
  return Value(count_words(to_text(value)));
}

Value filter_urlencode(Context&, const Value& value, Arguments&) {
  if (value.is_string() || !is_iterable(value)) return Value(quote_url(to_text(value), false));
  std::string out;
  List pairs;
  if (value.is_dict()) {
    for (const auto& [key, item] : value.entries().entries)
      pairs.push_back(Value::tuple({key, item}));
  } else {
    pairs = iterate(value);
  }
  for (const Value& pair : pairs) {
    const List parts = iterate(pair);
    if (parts.size() != 2) fail("urlencode: expected pairs, got {} elements", parts.size());
    if (!out.empty()) out += '&';
    out += quote_url(to_text(parts[0]), true) + "=" + quote_url(to_text(parts[1]), true);
  }
  return Value(std::move(out));
}

Value filter_filesizeformat(Context&, const Value& value, Arguments& args) {
  const Bound bound("filesizeformat", args, {"binary"});
  const double base = bound.flag(0) ? 1024 : 1000;
  const std::optional<double> parsed =
      value.is_string() ? parse_float(value.text()) : std::optional<double>(value.real());
  if (!parsed || (!value.is_string() && !value.is_number()))
    fail("filesizeformat: {} is not a number", shown(repr(value)));
  const double bytes = *parsed;
  if (bytes == 1) return Value("1 Byte");
  if (bytes < base) return Value(integer_text(truncate_to_integer(bytes)) + " Bytes");
  constexpr std::string_view kUnits = "kMGTPEZY";
  double unit = base;
  size_t i = 0;
  while (i + 1 < kUnits.size() && bytes >= unit * base) {
    unit *= base;
    ++i;
  }
  const char prefix = bound.flag(0) && i == 0 ? 'K' : kUnits[i];
  return Value(fmt::format("{:.1f} {}{}", bytes / unit, prefix, bound.flag(0) ? "iB" : "B"));
}

Value filter_default(Context&, const Value& value, Arguments& args) {
  const Bound bound("default", args, {"default_value", "boolean"});
  if (!value.is_undefined() && !(bound.flag(1) && !truth(value))) return value;
  return bound.get(0) == nullptr ? Value("") : bound.at(0);
}

Value filter_int(Context&, const Value& value, Arguments& args) {
  const Bound bound("int", args, {"default", "base"});
  const Value otherwise = bound.get(0) == nullptr ? Value(0) : bound.at(0);
  if (value.is_undefined()) fail_undefined(value);
  if (value.is_integral()) return Value(value.integer());
  if (value.is(Type::kFloat))
    return std::isfinite(value.real()) ? Value(truncate_to_integer(value.real())) : otherwise;
  if (!value.is_string()) return otherwise;
  const Int base = bound.integer(1, 10);
  if (base == 0 || (base >= 2 && base <= 36)) {
    const std::optional<Int> parsed = parse_integer(value.text(), static_cast<int>(base));
    if (parsed) return Value(*parsed);
  }
  const std::optional<double> real = parse_float(value.text());
  return real && std::isfinite(*real) ? Value(truncate_to_integer(*real)) : otherwise;
}

Value filter_float(Context&, const Value& value, Arguments& args) {
  const Bound bound("float", args, {"default"});
  if (value.is_undefined()) fail_undefined(value);
  if (value.is_number()) return Value(value.real());
  if (value.is_string()) {
    if (const std::optional<double> parsed = parse_float(value.text())) return Value(*parsed);
  }
  return bound.get(0) == nullptr ? Value(0.0) : bound.at(0);
}

Value filter_abs(Context&, const Value& value, Arguments&) {
  if (value.is_undefined()) fail_undefined(value);
  if (!value.is_number()) fail("bad operand type for abs(): '{}'", type_name(value));
  if (value.is(Type::kFloat)) return Value(std::abs(value.real()));
  return value.integer() < 0 ? unary(Operator::kNegate, value) : Value(value.integer());
}

Value filter_round(Context&, const Value& value, Arguments& args) {
  const Bound bound("round", args, {"precision", "method"});
  const auto digits = static_cast<int>(std::clamp<Int>(bound.integer(0, 0), -400, 400));
  const std::string method = bound.get(1) == nullptr ? "common" : bound.text(1);
  if (method != "common" && method != "ceil" && method != "floor")
    fail("method must be common, ceil or floor");
  if (value.is_undefined()) fail_undefined(value);
  if (!value.is_number()) fail("type {} doesn't define __round__ method", type_name(value));
  if (method == "common") {
    if (value.is_integral() && digits >= 0) return Value(value.integer());
    const double rounded = round_decimal(value.real(), digits);
    return value.is_integral() ? Value(truncate_to_integer(rounded)) : Value(rounded);
  }
  spend_steps(2);
  const double unit = std::pow(10.0, digits);
  const double scaled = value.real() * unit;
  return Value((method == "ceil" ? std::ceil(scaled) : std::floor(scaled)) / unit);
}

template <size_t>
Value unsupported(Context&, const Value&, Arguments&) {
  throw Error(ErrorKind::kUnsupported,
              "the filters xmlattr, urlize, wordwrap, pprint and random are not supported");
}

constexpr std::pair<std::string_view, Builtin> kFilters[] = {
    {"abs", filter_abs},
    {"capitalize", converted<capitalize>},
    {"center", filter_center},
    {"d", filter_default},
    {"default", filter_default},
    {"e", filter_escape},
    {"escape", filter_escape},
    {"filesizeformat", filter_filesizeformat},
    {"float", filter_float},
    {"forceescape", filter_forceescape},
    {"format", filter_format},
    {"indent", filter_indent},
    {"int", filter_int},
    {"lower", converted<lower>},
    {"replace", filter_replace},
    {"round", filter_round},
    {"safe", filter_safe},
    {"string", filter_string},
    {"striptags", filter_striptags},
    {"title", converted<title_words>},
    {"trim", filter_trim},
    {"truncate", filter_truncate},
    {"upper", converted<upper>},
    {"urlencode", filter_urlencode},
    {"wordcount", filter_wordcount},
    {"tojson", filter_tojson},
    {"xmlattr", unsupported<0>},
    {"urlize", unsupported<0>},
    {"wordwrap", unsupported<0>},
    {"pprint", unsupported<0>},
    {"random", unsupported<0>}};

}  // namespace

Builtin find_text_filter(std::string_view name) { return find_in(kFilters, name); }

Builtin find_filter(std::string_view name) {
  const Builtin found = find_text_filter(name);
  return found != nullptr ? found : find_sequence_filter(name);
}

}  // namespace veery::jinja
