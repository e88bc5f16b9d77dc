// numbers.h: parsing, formatting and arithmetic of numbers as in Python.
#pragma once
#include <optional>
#include <string>
#include <string_view>

#include "text/jinja/value/value.h"

namespace veery::jinja {

std::string integer_text(Int value);
/// Returns the shortest text that parses to `value`, in the format of Python's repr().
std::string float_text(double value);
/// Returns the digits of `value` in `base` (2 to 16), with a minus sign if negative.
std::string integer_digits(Int value, unsigned base);

/// Parses a text like Python's int(text, base): spaces around, a sign, underscores between digits;
/// a prefix such as 0x requires base 0 or the matching base. Returns nullopt for other texts.
/// Throws kLimit if the number does not fit into Int.
std::optional<Int> parse_integer(std::string_view text, int base = 10);
/// Parses a text like Python's float(text).
std::optional<double> parse_float(std::string_view text);
/// Returns int(value). Throws for NaN, infinity and values that do not fit into Int.
Int truncate_to_integer(double value);

enum class Operator : uint8_t {
  kAdd,
  kSubtract,
  kMultiply,
  kDivide,
  kFloorDivide,
  kModulo,
  kPower,
  kNegate,
  kPlus,
  kNot,
  kAnd,
  kOr,
  kConcat,
  kEqual,
  kNotEqual,
  kLess,
  kLessEqual,
  kGreater,
  kGreaterEqual,
  kIn,
  kNotIn,
};
std::string_view operator_symbol(Operator op);

/// Computes a op b for numbers (bool counts as int). Throws on division by zero and overflow.
Value arithmetic(Operator op, const Value& a, const Value& b);

/// Rounds half to even at `precision` decimal digits, with the same result as Python.
double round_decimal(double value, int precision);

}  // namespace veery::jinja
