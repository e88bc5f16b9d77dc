// number_language.h: sets of numbers as languages of their plain decimal spellings.
#pragma once
#include <string>

#include "base/json.h"
#include "text/grammar/language/automaton.h"

namespace veery::schema {

/// Returns the canonical decimal spelling: no exponent, no trailing zeros, "0" for zero. Throws
/// kUnsupported above 400 digits.
std::string plain_number(const Json& number);

const Dfa& all_numbers();
const Dfa& all_integers();  ///< numbers without a fraction

/// Returns the numbers >= `bound` and <= `bound`; with `exclusive`, > and <. `bound` is a plain
/// spelling.
Dfa numbers_from(const std::string& bound, bool exclusive);
Dfa numbers_to(const std::string& bound, bool exclusive);

/// Returns the multiples of a plain spelling. Throws kUnsupported for fractions that binary
/// floating point cannot represent exactly, and kLimit if the divisor is too large.
Dfa multiples_of(const std::string& divisor);

/// The most digits that any bound of a range has before and after the point. They decide the
/// precision of generated numbers.
struct NumberDigits {
  int64_t whole = 1, decimals = 0;
  void widen(const std::string& bound);
};

/// Returns the permitted spellings of the numbers of `plain`. Integers keep their spelling; if the
/// language has fractions, trailing zeros are permitted too. The number of decimals is limited so
/// that rounding to a double never moves a number across a bound.
Dfa spellings(const Dfa& plain, const NumberDigits& digits);

}  // namespace veery::schema
