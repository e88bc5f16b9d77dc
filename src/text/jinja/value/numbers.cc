#include "text/jinja/value/numbers.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <limits>

#include "text/jinja/value/strings.h"

namespace veery::jinja {
namespace {

[[noreturn]] void fail_overflow() {
  throw Error(ErrorKind::kLimit, "an integer needs more than 127 bits, which is not supported");
}

int digit_value(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'z') return c - 'a' + 10;
  if (c >= 'A' && c <= 'Z') return c - 'A' + 10;
  return 99;
}

Int floor_divide(Int a, Int b) {
  if (b == -1) {
    Int out = 0;
    if (__builtin_sub_overflow(Int{0}, a, &out)) fail_overflow();
    return out;
  }
  const Int quotient = a / b;
  return a % b != 0 && (a < 0) != (b < 0) ? quotient - 1 : quotient;
}

Int modulo(Int a, Int b) {
  if (b == -1) return 0;
  const Int rest = a % b;
  return rest != 0 && (rest < 0) != (b < 0) ? rest + b : rest;
}

double modulo(double a, double b) {
  // fmod computes the quotient bit by bit.
  const int bits = std::isfinite(a) && a != 0 && b != 0 ? std::ilogb(a) - std::ilogb(b) : 0;
  spend_steps(static_cast<size_t>(std::max(bits, 0)) / 16);
  double rest = std::fmod(a, b);
  if (rest != 0) {
    if ((rest < 0) != (b < 0)) rest += b;
  } else {
    rest = std::copysign(0.0, b);
  }
  return rest;
}

double floor_divide(double a, double b) {
  const double quotient = (a - modulo(a, b)) / b;
  if (quotient == 0) return std::copysign(0.0, a / b);
  const double floored = std::floor(quotient);
  return quotient - floored > 0.5 ? floored + 1 : floored;
}

Value power(Int base, Int exponent) {
  if (exponent < 0) {
    if (base == 0) fail("0.0 cannot be raised to a negative power");
    return Value(std::pow(static_cast<double>(base), static_cast<double>(exponent)));
  }
  Int result = 1;
  if (base == 0 || base == 1) return Value(exponent == 0 ? Int{1} : base);
  if (base == -1) return Value(exponent % 2 == 0 ? Int{1} : Int{-1});
  for (; exponent > 0; --exponent) {  // overflows after at most 127 iterations
    if (__builtin_mul_overflow(result, base, &result)) fail_overflow();
  }
  return Value(result);
}

Value integer_arithmetic(Operator op, Int a, Int b) {
  Int out = 0;
  bool overflow = false;
  switch (op) {
    case Operator::kAdd: overflow = __builtin_add_overflow(a, b, &out); break;
    case Operator::kSubtract: overflow = __builtin_sub_overflow(a, b, &out); break;
    case Operator::kMultiply: overflow = __builtin_mul_overflow(a, b, &out); break;
    case Operator::kDivide:
      if (b == 0) fail("division by zero");
      return Value(static_cast<double>(a) / static_cast<double>(b));
    case Operator::kFloorDivide:
    case Operator::kModulo:
      if (b == 0) fail("integer division or modulo by zero");
      out = op == Operator::kModulo ? modulo(a, b) : floor_divide(a, b);
      break;
    default: return power(a, b);
  }
  if (overflow) fail_overflow();
  return Value(out);
}

Value float_arithmetic(Operator op, double a, double b) {
  switch (op) {
    case Operator::kAdd: return Value(a + b);
    case Operator::kSubtract: return Value(a - b);
    case Operator::kMultiply: return Value(a * b);
    case Operator::kDivide:
      if (b == 0) fail("float division by zero");
      return Value(a / b);
    case Operator::kFloorDivide:
      if (b == 0) fail("float floor division by zero");
      return Value(floor_divide(a, b));
    case Operator::kModulo:
      if (b == 0) fail("float modulo");
      return Value(modulo(a, b));
    default: break;
  }
  if (a == 0 && b < 0) fail("0.0 cannot be raised to a negative power");
  const double result = std::pow(a, b);
  if (std::isnan(result) && !std::isnan(a) && !std::isnan(b))
    throw Error(ErrorKind::kUnsupported, "complex numbers are not supported");
  if (std::isinf(result) && !std::isinf(a) && !std::isinf(b)) fail("Numerical result out of range");
  return Value(result);
}

// Removes single underscores between digits. Returns false if the text has others.
bool strip_underscores(std::string_view text, std::string& out) {
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '_') {
      out.push_back(text[i]);
    } else if (i == 0 || i + 1 == text.size() || digit_value(text[i - 1]) > 35 ||
               digit_value(text[i + 1]) > 35) {
      return false;
    }
  }
  return true;
}

int prefix_base(std::string_view digits) {
  if (digits.size() < 2 || digits[0] != '0') return 0;
  switch (digits[1]) {
    case 'x':
    case 'X': return 16;
    case 'o':
    case 'O': return 8;
    case 'b':
    case 'B': return 2;
    default: return 0;
  }
}

}  // namespace

std::string integer_digits(Int value, unsigned base) {
  // An unsigned magnitude, since the smallest Int has no positive counterpart.
  __extension__ using Unsigned = unsigned __int128;
  Unsigned rest = value < 0 ? -static_cast<Unsigned>(value) : static_cast<Unsigned>(value);
  std::string out;
  do {
    out.push_back("0123456789abcdef"[static_cast<size_t>(rest % base)]);
    rest /= base;
  } while (rest != 0);
  if (value < 0) out.push_back('-');
  std::ranges::reverse(out);
  spend_items(out.size());
  return out;
}

std::string integer_text(Int value) { return integer_digits(value, 10); }

std::string float_text(double value) {
  spend_steps(4);
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value < 0 ? "-inf" : "inf";
  std::array<char, 64> buffer{};
  auto result = std::to_chars(buffer.data(), buffer.data() + buffer.size(), value,
                              std::chars_format::scientific);
  const std::string_view text(buffer.data(), result.ptr);
  const size_t e = text.find('e');
  int exponent = 0;
  const size_t sign = text[e + 1] == '+' ? 1 : 0;
  std::from_chars(text.data() + e + 1 + sign, text.data() + text.size(), exponent);
  if (exponent < -4 || exponent >= 16) return std::string(text);
  result =
      std::to_chars(buffer.data(), buffer.data() + buffer.size(), value, std::chars_format::fixed);
  std::string fixed(buffer.data(), result.ptr);
  if (fixed.find('.') == std::string::npos) fixed += ".0";
  return fixed;
}

std::optional<Int> parse_integer(std::string_view text, int base) {
  spend_text(text.size());
  std::string_view digits = strip(text);
  const bool negative = !digits.empty() && digits[0] == '-';
  if (!digits.empty() && (digits[0] == '-' || digits[0] == '+')) digits.remove_prefix(1);
  if (const int prefixed = prefix_base(digits); prefixed != 0 && (base == 0 || base == prefixed)) {
    base = prefixed;
    digits.remove_prefix(2);
    if (!digits.empty() && digits[0] == '_') digits.remove_prefix(1);
  } else if (base == 0) {
    base = 10;
    if (digits.size() > 1 && digits[0] == '0' &&
        digits.find_first_not_of("0_") != std::string_view::npos)
      return std::nullopt;
  }
  std::string plain;
  if (digits.empty() || !strip_underscores(digits, plain)) return std::nullopt;
  if (!std::ranges::all_of(plain, [&](char c) { return digit_value(c) < base; }))
    return std::nullopt;
  Int value = 0;
  for (const char c : plain) {
    if (__builtin_mul_overflow(value, Int{base}, &value) ||
        __builtin_add_overflow(value, Int{digit_value(c)}, &value))
      fail_overflow();
  }
  return negative ? -value : value;
}

std::optional<double> parse_float(std::string_view text) {
  spend_text(text.size());
  std::string plain;
  if (!strip_underscores(strip(text), plain) || plain.empty()) return std::nullopt;
  std::string_view digits = plain;
  const bool negative = digits[0] == '-';
  if (digits[0] == '-' || digits[0] == '+') digits.remove_prefix(1);
  if (digits.empty()) return std::nullopt;
  const std::string word = lower(digits);
  double value = 0;
  if (word == "inf" || word == "infinity") {
    value = std::numeric_limits<double>::infinity();
  } else if (word == "nan") {
    value = std::numeric_limits<double>::quiet_NaN();
  } else {
    if (digits.find_first_not_of("0123456789.eE+-") != std::string_view::npos) return std::nullopt;
    if (digits[0] == '+' || digits[0] == '-') return std::nullopt;
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
    if (end != digits.data() + digits.size()) return std::nullopt;
    if (error == std::errc::result_out_of_range) {
      const size_t e = digits.find_first_of("eE");
      const bool tiny = e != std::string_view::npos && digits[e + 1] == '-';
      value = tiny ? 0 : std::numeric_limits<double>::infinity();
    } else if (error != std::errc()) {
      return std::nullopt;
    }
  }
  return negative ? -value : value;
}

Int truncate_to_integer(double value) {
  if (std::isnan(value)) fail("cannot convert float NaN to integer");
  if (std::isinf(value)) fail("cannot convert float infinity to integer");
  if (std::abs(value) >= 0x1p126) fail_overflow();
  return static_cast<Int>(value);
}

std::string_view operator_symbol(Operator op) {
  switch (op) {
    case Operator::kAdd: return "+";
    case Operator::kSubtract: return "-";
    case Operator::kMultiply: return "*";
    case Operator::kDivide: return "/";
    case Operator::kFloorDivide: return "//";
    case Operator::kModulo: return "%";
    case Operator::kPower: return "** or pow()";
    case Operator::kNegate: return "unary -";
    case Operator::kPlus: return "unary +";
    case Operator::kNot: return "not";
    case Operator::kAnd: return "and";
    case Operator::kOr: return "or";
    case Operator::kConcat: return "~";
    case Operator::kEqual: return "==";
    case Operator::kNotEqual: return "!=";
    case Operator::kLess: return "<";
    case Operator::kLessEqual: return "<=";
    case Operator::kGreater: return ">";
    case Operator::kGreaterEqual: return ">=";
    case Operator::kIn: return "in";
    case Operator::kNotIn: return "not in";
  }
  return "unknown";
}

Value arithmetic(Operator op, const Value& a, const Value& b) {
  if (a.is_integral() && b.is_integral()) return integer_arithmetic(op, a.integer(), b.integer());
  return float_arithmetic(op, a.real(), b.real());
}

double round_decimal(double value, int precision) {
  if (!std::isfinite(value) || precision > 323) return value;
  if (precision < -308) return 0.0 * value;
  if (precision < 0) {
    const double unit = std::pow(10.0, -precision);
    const double scaled = value / unit;
    double rounded = std::round(scaled);
    if (std::abs(scaled - rounded) == 0.5) rounded = 2.0 * std::round(scaled / 2.0);
    return rounded * unit;
  }
  const int before = value == 0 ? 0 : std::max(std::ilogb(value) / 3, 0);  // integer digits
  spend_steps(static_cast<size_t>(precision + before) * 4);
  const std::string text = fmt::format("{:.{}f}", value, precision);  // correctly rounded
  double rounded = value;
  std::from_chars(text.data(), text.data() + text.size(), rounded);
  return rounded;
}

}  // namespace veery::jinja
