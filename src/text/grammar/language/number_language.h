// number_language.h: sets of numbers as languages of their plain decimal spellings.
#pragma once
#include <string>

#include "base/json.h"
#include "text/grammar/language/automaton.h"

namespace veery::schema {

/// Returns the one plain spelling of a number: no exponent, no trailing zeros, "0" for zero. Throws
/// kUnsupported beyond 400 digits.
std::string plain_number(const Json& number);

const Dfa& all_numbers();
const Dfa& all_integers();  ///< numbers without a fraction

/// Numbers of at least `bound`, or above it; at most it, or below it. `bound`: a plain spelling.
Dfa numbers_from(const std::string& bound, bool exclusive);
Dfa numbers_to(const std::string& bound, bool exclusive);

/// Multiples of a plain spelling. Throws kUnsupported for fractions that binary floating point does
/// not hold, kLimit for too large a number.
Dfa multiples_of(const std::string& divisor);

/// How many digits the bounds of a range have; decides the precision of what is generated.
struct NumberDigits {
  int64_t whole = 1, decimals = 0;
  void widen(const std::string& bound);
};

/// Returns how the numbers of a language of plain spellings may be written: integers as they are,
/// and if there are fractions also with zeros at the end. Fractions have so few digits that reading
/// them as binary numbers moves none across a bound.
Dfa spellings(const Dfa& plain, const NumberDigits& digits);

}  // namespace veery::schema
