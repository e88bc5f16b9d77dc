#include <cmath>

#include "base/utf8.h"
#include "text/jinja/value/operators.h"
#include "text/jinja/value/strings.h"

namespace veery::jinja {
namespace {

constexpr Int kMaxWidth = 1 << 20;

// [[fill]align][sign][#][0][width][grouping][.precision][type], for both kinds of formatting.
struct Spec {
  std::string fill = " ";
  char align = '\0', sign = '-', grouping = '\0', type = '\0';
  bool alternate = false, zero = false;
  size_t width = 0;
  int precision = -1;
};

size_t read_number(std::string_view& text) {
  Int value = 0;
  while (!text.empty() && text[0] >= '0' && text[0] <= '9') {
    value = std::min(value * 10 + (text[0] - '0'), kMaxWidth + 1);
    text.remove_prefix(1);
  }
  if (value > kMaxWidth) fail("a format has a width or precision above {}", int{kMaxWidth});
  return static_cast<size_t>(value);
}

bool aligns(char c) { return c == '<' || c == '>' || c == '^' || c == '='; }

Spec parse_spec(std::string_view text) {
  Spec spec;
  const std::string_view whole = text;
  const auto take = [&] {
    const char c = text[0];
    text.remove_prefix(1);
    return c;
  };
  if (!text.empty()) {
    const auto n = static_cast<size_t>(next_code_point(text).length);
    if (n < text.size() && aligns(text[n])) {
      spec.fill = std::string(text.substr(0, n));
      text.remove_prefix(n);
      spec.align = take();
    } else if (aligns(text[0])) {
      spec.align = take();
    }
  }
  if (!text.empty() && (text[0] == '+' || text[0] == '-' || text[0] == ' ')) spec.sign = take();
  if (text.starts_with('#')) spec.alternate = take() == '#';
  if (text.starts_with('0')) spec.zero = take() == '0';
  spec.width = read_number(text);
  if (text.starts_with(',') || text.starts_with('_')) spec.grouping = take();
  if (text.starts_with('.')) {
    take();
    if (text.empty() || text[0] < '0' || text[0] > '9') fail("Format specifier missing precision");
    spec.precision = static_cast<int>(read_number(text));
  }
  if (!text.empty()) spec.type = take();
  if (!text.empty()) fail("Invalid format specifier '{}'", shown(whole));
  if (spec.zero && spec.align == '\0') {
    spec.fill = "0";
    spec.align = '=';
  }
  return spec;
}

std::string group_digits(const std::string& digits, char separator, size_t every) {
  spend_text(digits.size());
  std::string out;
  for (size_t i = 0; i < digits.size(); ++i) {
    if (i > 0 && (digits.size() - i) % every == 0) out.push_back(separator);
    out.push_back(digits[i]);
  }
  return out;
}

// Pads a number. Sign and digits are separate because '=' pads between them.
std::string pad(const Spec& spec, const std::string& sign, const std::string& body, char align) {
  const size_t size = count_code_points(sign) + count_code_points(body);
  const size_t space = spec.width > size ? spec.width - size : 0;
  const size_t before = align == '<' ? 0 : align == '^' ? space / 2 : space;
  expect_memory(sign.size() + body.size() + space * spec.fill.size());
  spend_items(space);
  std::string out = align == '=' ? sign : std::string();
  for (size_t i = 0; i < before; ++i) out += spec.fill;
  if (align != '=') out += sign;
  out += body;
  for (size_t i = before; i < space; ++i) out += spec.fill;
  return out;
}

std::string sign_text(const Spec& spec, bool negative) {
  if (negative) return "-";
  return spec.sign == '-' ? std::string() : std::string(1, spec.sign);
}

std::string format_integer(Int value, const Spec& spec) {
  if (spec.type == 'c') {
    std::string text;
    if (value < 0 || value > 0x10FFFF) fail("%c arg not in range(0x110000)");
    append_utf8(text, static_cast<char32_t>(value));
    return pad(spec, "", text, spec.align == '\0' ? '<' : spec.align);
  }
  if (spec.precision >= 0) fail("Precision not allowed in integer format specifier");
  const bool hex = spec.type == 'x' || spec.type == 'X';
  const unsigned base = hex ? 16 : spec.type == 'o' ? 8 : spec.type == 'b' ? 2 : 10;
  std::string digits = integer_digits(value, base);
  if (value < 0) digits.erase(0, 1);
  if (spec.type == 'X') digits = upper(digits);
  if (spec.grouping != '\0') digits = group_digits(digits, spec.grouping, base == 10 ? 3 : 4);
  std::string sign = sign_text(spec, value < 0);
  if (spec.alternate && base != 10) sign += std::string("0") + spec.type;
  return pad(spec, sign, digits, spec.align == '\0' ? '>' : spec.align);
}

// Formats a magnitude with type e, f, g, % or none (repr(), or g with at least one decimal).
std::string float_digits(double value, const Spec& spec) {
  if (!std::isfinite(value)) return std::isnan(value) ? "nan" : "inf";
  const int precision = spec.precision < 0 ? 6 : spec.precision;
  // A double has at most 1,100 nonzero digits; further digits are only written.
  spend_steps(static_cast<size_t>(std::min(precision, 1100)) * 2);
  spend_copy(static_cast<size_t>(precision));
  switch (spec.type) {
    case 'e':
    case 'E': return fmt::format("{:.{}e}", value, precision);
    case 'f':
    case 'F': return fmt::format("{:.{}f}", value, precision);
    case '%': return fmt::format("{:.{}f}%", value * 100, precision);
    case 'g':
    case 'G':
      return spec.alternate ? fmt::format("{:#.{}g}", value, std::max(precision, 1))
                            : fmt::format("{:.{}g}", value, std::max(precision, 1));
    default: break;
  }
  if (spec.precision < 0) return float_text(value);
  std::string text = fmt::format("{:.{}g}", value, std::max(precision, 1));
  if (text.find_first_of(".e") == std::string::npos) text += ".0";
  return text;
}

std::string format_float(double value, const Spec& spec) {
  const bool negative = std::signbit(value) && !std::isnan(value);
  std::string digits = float_digits(std::abs(value), spec);
  if (spec.grouping != '\0' && std::isfinite(value)) {
    const size_t end = std::min(digits.find_first_of(".e%"), digits.size());
    digits = group_digits(digits.substr(0, end), spec.grouping, 3) + digits.substr(end);
  }
  if (spec.type == 'E' || spec.type == 'G' || spec.type == 'F') digits = upper(digits);
  return pad(spec, sign_text(spec, negative), digits, spec.align == '\0' ? '>' : spec.align);
}

std::string format_string(std::string_view text, const Spec& spec) {
  if (spec.type != '\0' && spec.type != 's')
    fail("Unknown format code '{}' for object of type 'str'", spec.type);
  if (spec.align == '=' && !spec.zero) fail("'=' alignment not allowed in string format specifier");
  if (spec.precision >= 0)
    text = text.substr(0, byte_offset(text, static_cast<size_t>(spec.precision)));
  const char align = spec.align == '\0' || spec.align == '=' ? '<' : spec.align;
  return pad(spec, "", std::string(text), align);
}

bool is_float_type(char type) {
  return std::string_view("eEfFgG%").find(type) != std::string_view::npos;
}
bool is_integer_type(char type) {
  return std::string_view("bcdnoxX").find(type) != std::string_view::npos;
}

// One evaluation of pattern % arguments.
class PercentFormat {
 public:
  PercentFormat(const Value& pattern, const Value& arguments)
      : markup_(pattern.string().markup), rest_(pattern.text()), arguments_(arguments) {}

  std::string run() {
    spend_copy(rest_.size());
    while (!rest_.empty()) {
      const size_t at = std::min(rest_.find('%'), rest_.size());
      out_.append(rest_.substr(0, at));
      rest_.remove_prefix(at);
      if (!rest_.empty()) conversion();
    }
    const bool many = arguments_.is(Type::kTuple);
    const bool all = many ? used_ == arguments_.items().size() : used_ > 0 || named_;
    // Values with subscripts count as mappings, whose members need not all be used.
    const bool scalar = arguments_.is_none() || arguments_.is_number() || arguments_.is_string();
    if (!all && (many || scalar)) fail("not all arguments converted during string formatting");
    return out_.take();
  }

 private:
  Value next() {
    if (!arguments_.is(Type::kTuple)) {
      if (used_++ > 0) fail("not enough arguments for format string");
      return arguments_;
    }
    if (used_ >= arguments_.items().size()) fail("not enough arguments for format string");
    return arguments_.items()[used_++];
  }

  void conversion() {
    spend_steps(4);
    rest_.remove_prefix(1);
    std::optional<Value> value;
    if (rest_.starts_with('(')) {
      const size_t end = rest_.find(')');
      if (end == std::string_view::npos) fail("incomplete format key");
      if (!arguments_.is_dict()) fail("format requires a mapping");
      const Value* found = arguments_.entries().find(rest_.substr(1, end - 1));
      if (found == nullptr) fail("missing key '{}' of the format", shown(rest_.substr(1, end - 1)));
      value = *found;
      named_ = true;
      rest_.remove_prefix(end + 1);
    }
    Spec spec;
    flags(spec);
    if (rest_.empty()) fail("incomplete format");
    const char type = rest_[0];
    rest_.remove_prefix(1);
    if (type == '%') {
      out_.append('%');
      return;
    }
    put(spec, type, value ? *value : next());
  }

  void flags(Spec& spec) {
    for (; !rest_.empty(); rest_.remove_prefix(1)) {
      const char c = rest_[0];
      if (c == '-')
        spec.align = '<';
      else if (c == '+' || (c == ' ' && spec.sign != '+'))
        spec.sign = c;
      else if (c == '#')
        spec.alternate = true;
      else if (c == '0')
        spec.zero = true;
      else if (c != ' ')
        break;
    }
    if (rest_.starts_with('*')) {
      rest_.remove_prefix(1);
      const Int width = to_index(next(), "* wants int");
      if (width < 0) spec.align = '<';
      spec.width = static_cast<size_t>(std::min(width < 0 ? -width : width, kMaxWidth));
    } else {
      spec.width = read_number(rest_);
    }
    if (rest_.starts_with('.')) {
      rest_.remove_prefix(1);
      spec.precision = static_cast<int>(read_number(rest_));
    }
    while (rest_.starts_with('l') || rest_.starts_with('h')) rest_.remove_prefix(1);
    if (spec.zero && spec.align == '\0') {
      spec.fill = "0";
      spec.align = '=';
    }
  }

  void put(Spec spec, char type, const Value& value) {
    if (type == 's' || type == 'r' || type == 'a') {
      spec.fill = " ";
      if (spec.align != '<') spec.align = '>';
      std::string text = type == 's' ? to_text(value) : repr(value);
      if (markup_) text = type == 's' ? escaped(value) : escape_html(text);
      out_.append(format_string(text, spec));
      return;
    }
    if (type == 'c' && value.is_string() && value.string().length == 1) {
      out_.append(format_string(value.text(), spec));
      return;
    }
    if (value.is_undefined()) fail_undefined(value);
    const bool whole = type == 'd' || type == 'i' || type == 'u';
    if (!value.is_number() || (!whole && is_integer_type(type) && !value.is_integral()))
      fail("%{} format: a number is required, not {}", type, type_name(value));
    if (whole || is_integer_type(type)) {
      spec.type = whole ? 'd' : type;
      const int precision = std::exchange(spec.precision, -1);
      Int number = value.is_integral() ? value.integer() : truncate_to_integer(value.real());
      if (precision > 0 && spec.width == 0) {
        spec.width = static_cast<size_t>(precision) + (number < 0 ? 1 : 0);
        spec.fill = "0";
        spec.align = '=';
      }
      out_.append(format_integer(number, spec));
    } else if (is_float_type(type) && type != '%') {
      spec.type = type;
      out_.append(format_float(value.real(), spec));
    } else {
      fail("unsupported format character '{}'", type);
    }
  }

  bool markup_;
  std::string_view rest_;
  const Value& arguments_;
  size_t used_ = 0;
  bool named_ = false;
  Builder out_;
};

// One call of str.format().
class BraceFormat {
 public:
  BraceFormat(const Value& pattern, const Arguments& arguments)
      : markup_(pattern.string().markup), arguments_(arguments) {}

  std::string run(std::string_view text, int depth = 2) {
    if (depth < 0) fail("Max string recursion exceeded");
    Builder out;
    spend_text(text.size());
    while (!text.empty()) {
      const size_t at = std::min(text.find_first_of("{}"), text.size());
      out.append(text.substr(0, at));
      text.remove_prefix(at);
      if (text.empty()) break;
      if (text.size() > 1 && text[1] == text[0]) {
        out.append(text[0]);
        text.remove_prefix(2);
        continue;
      }
      if (text[0] == '}') fail("Single '}}' encountered in format string");
      const size_t end = closing(text);
      out.append(field(text.substr(1, end - 1), depth));
      text.remove_prefix(end + 1);
    }
    return out.take();
  }

 private:
  static size_t closing(std::string_view text) {
    int open = 0;
    for (size_t i = 0; i < text.size(); ++i) {
      if (text[i] == '{') ++open;
      if (text[i] == '}' && --open == 0) return i;
    }
    fail("expected '}}' before end of string");
  }

  std::string field(std::string_view text, int depth) {
    spend_steps(4);
    size_t name_end = 0;
    while (name_end < text.size() && text[name_end] != '!' && text[name_end] != ':') {
      if (text[name_end] == '[') name_end = std::min(text.find(']', name_end), text.size() - 1);
      ++name_end;
    }
    Value value = lookup(text.substr(0, name_end));
    text.remove_prefix(name_end);
    if (text.starts_with('!')) {
      if (text.size() < 2) fail("end of string while looking for conversion specifier");
      value = text[1] == 's' ? Value(to_text(value)) : Value(repr(value));
      text.remove_prefix(2);
    }
    if (text.starts_with(':')) text.remove_prefix(1);
    const std::string spec = run(text, depth - 1);
    if (markup_) return spec.empty() ? escaped(value) : escape_html(format_value(value, spec));
    return format_value(value, spec);
  }

  Value lookup(std::string_view name) {
    const size_t first = std::min(name.find_first_of(".["), name.size());
    Value value = argument(name.substr(0, first));
    name.remove_prefix(first);
    while (!name.empty()) {
      if (name[0] == '.') {
        const size_t end = std::min(name.find_first_of(".[", 1), name.size());
        value = get_attribute(value, Value(name.substr(1, end - 1)));
        name.remove_prefix(end);
      } else {
        const size_t end = name.find(']');
        if (end == std::string_view::npos) fail("Missing ']' in format string");
        const std::string_view key = name.substr(1, end - 1);
        const bool number = all_code_points(key, [](char32_t c) { return c >= '0' && c <= '9'; });
        value = get_item(value, number ? Value(*parse_integer(key)) : Value(key));
        name.remove_prefix(end + 1);
      }
    }
    return value;
  }

  Value argument(std::string_view name) {
    const bool number = all_code_points(name, [](char32_t c) { return c >= '0' && c <= '9'; });
    if (name.empty() || number) {
      const Int index = name.empty() ? static_cast<Int>(automatic_++) : *parse_integer(name);
      if (index >= static_cast<Int>(arguments_.positional.size()))
        fail("Replacement index {} out of range for positional args tuple", integer_text(index));
      return arguments_.positional[static_cast<size_t>(index)];
    }
    for (const auto& [key, value] : arguments_.keyword) {
      spend_steps(1);
      if (key == name) return value;
    }
    fail("missing argument '{}' of the format", shown(name));
  }

  bool markup_;
  const Arguments& arguments_;
  size_t automatic_ = 0;
};

}  // namespace

std::string format_value(const Value& value, std::string_view text) {
  if (text.empty()) return to_text(value);
  const Spec spec = parse_spec(text);
  if (value.is_string()) return format_string(value.text(), spec);
  if (value.is_integral() && !(value.is(Type::kBool) && spec.type == '\0')) {
    if (is_float_type(spec.type)) return format_float(value.real(), spec);
    if (spec.type != '\0' && !is_integer_type(spec.type))
      fail("Unknown format code '{}' for object of type 'int'", spec.type);
    return format_integer(value.integer(), spec);
  }
  if (value.is(Type::kBool)) return format_integer(value.integer(), spec);
  if (value.is(Type::kFloat)) {
    if (spec.type != '\0' && !is_float_type(spec.type))
      fail("Unknown format code '{}' for object of type 'float'", spec.type);
    return format_float(value.real(), spec);
  }
  fail("unsupported format string passed to {}.__format__", type_name(value));
}

Value format_percent(const Value& pattern, const Value& arguments) {
  return Value(PercentFormat(pattern, arguments).run(), pattern.string().markup);
}

Value format_braces(const Value& pattern, const Arguments& arguments) {
  return Value(BraceFormat(pattern, arguments).run(pattern.text()), pattern.string().markup);
}

}  // namespace veery::jinja
