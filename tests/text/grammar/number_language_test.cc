// Sets of numbers: a decimal spelling is in the language if and only if the number is in the set.
#include "text/grammar/language/number_language.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "base/random.h"

namespace veery::schema {
namespace {

// Returns the exact spelling of a number of hundredths.
std::string spelled(int64_t hundredths) {
  return plain_number(
      parse_json(fmt::format("{}{}.{:02}", hundredths < 0 ? "-" : "", std::abs(hundredths) / 100,
                             std::abs(hundredths) % 100),
                 "a number"));
}

TEST(NumberLanguage, PlainSpellings) {
  for (const auto& [text, plain] : std::initializer_list<std::pair<const char*, const char*>>{
           {"1e-7", "0.0000001"},
           {"-1.50", "-1.5"},
           {"-0.0", "0"},
           {"1e3", "1000"},
           {"12.5e1", "125"},
           {"18446744073709551615", "18446744073709551615"},
           {"0.1", "0.1"},
           {"100", "100"},
           {"1e22", "10000000000000000000000"}})
    EXPECT_EQ(plain_number(parse_json(text, "a number")), plain);
}

TEST(NumberLanguage, BoundsMatchNumericOrder) {
  Random random(7);
  const auto pick = [&] { return static_cast<int64_t>(random.next() % 30001) - 15000; };
  for (int i = 0; i < 60; ++i) {
    const int64_t bound = i == 0 ? 0 : pick() / (1 + i % 4 * 33);
    for (const bool exclusive : {false, true}) {
      const Dfa from = numbers_from(spelled(bound), exclusive),
                to = numbers_to(spelled(bound), exclusive);
      for (int k = 0; k < 100; ++k) {
        const int64_t value = k < 5 ? bound + k - 2 : pick();
        EXPECT_EQ(from.accepts(spelled(value)), value > bound || (value == bound && !exclusive))
            << spelled(value) << " from " << spelled(bound);
        EXPECT_EQ(to.accepts(spelled(value)), value < bound || (value == bound && !exclusive))
            << spelled(value) << " to " << spelled(bound);
      }
    }
  }
}

TEST(NumberLanguage, Multiples) {
  for (const int64_t divisor : {25, 50, 100, 300, 700, 1200, 12800}) {
    const Dfa language = multiples_of(spelled(divisor));
    for (int64_t value = -30000; value <= 30000; value += 25)
      EXPECT_EQ(language.accepts(spelled(value)), value % divisor == 0)
          << spelled(value) << " of " << spelled(divisor);
  }
  EXPECT_THROW(multiples_of("0.01"), Error);
  EXPECT_THROW(multiples_of("0"), Error);
}

TEST(NumberLanguage, IntegersAreWrittenWithoutAPoint) {
  EXPECT_FALSE(spellings(all_integers(), {}).accepts("1.0"));
  const Dfa written = spellings(numbers_from("0", false), {});
  for (const char* text : {"1", "1.0", "1.50", "0.25"}) EXPECT_TRUE(written.accepts(text)) << text;
  for (const char* text : {"01", "1.", "-1", ""}) EXPECT_FALSE(written.accepts(text)) << text;
}

// 0.99999999999999999 is 1 as a double.
TEST(NumberLanguage, ValuesReadAsDoublesStayWithinBounds) {
  NumberDigits digits;
  digits.widen("1000000");
  const Dfa written = spellings(numbers_to("1000000", true), digits);
  EXPECT_TRUE(written.accepts("999999.99999999"));
  EXPECT_FALSE(written.accepts("999999.999999999999"));
}

}  // namespace
}  // namespace veery::schema
