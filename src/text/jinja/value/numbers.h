// numbers.h: numbers as Python reads, writes and computes them.
#pragma once
#include <optional>
#include <string>
#include <string_view>

#include "text/jinja/value/value.h"

namespace veery::jinja {

std::string integer_text(Int value);
/// The shortest text that reads back as `value`, as Python's repr() writes it.
std::string float_text(double value);
/// Digits of `value` in `base` (2 to 16), with a minus sign if negative.
std::string integer_digits(Int value, unsigned base);

/// What int(text, base) accepts (spaces around, sign, underscores between digits; base 0 or a
/// matching prefix as in 0x1F); absent otherwise. Throws kLimit where Int is too narrow.
std::optional<Int> parse_integer(std::string_view text, int base = 10);
/// What float(text) accepts.
std::optional<double> parse_float(std::string_view text);
/// int(value); throws for NaN, infinity and what Int does not hold.
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

/// a op b of two numbers (bool counts as int). Throws on division by zero and overflow.
Value arithmetic(Operator op, const Value& a, const Value& b);

/// Rounds half to even at `precision` decimal digits, exactly as Python does.
double round_decimal(double value, int precision);

}  // namespace veery::jinja
