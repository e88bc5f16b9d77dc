// Languages of patterns compared with matches of PCRE, and operations on languages.
#include "text/grammar/language/pattern.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "base/error.h"
#include "base/random.h"
#include "text/common/regex.h"

namespace veery::schema {
namespace {

std::string random_word(Random& random) {
  constexpr std::string_view kLetters[] = {"a", "b", "c", "0", "1", "-", ".", "\n", " ", "é", "A"};
  std::string word;
  for (uint32_t i = random.next() % 7; i > 0; --i)
    word += kLetters[random.next() % std::size(kLetters)];
  return word;
}

TEST(Pattern, MatchesLikePcre) {
  Random random(3);
  for (const char* pattern : {"a",
                              "^a",
                              "a\\z",
                              "^\\z",
                              "",
                              "^[ab]+\\z",
                              "a|^b|c\\z",
                              "^(a|b)*c",
                              "^a{2,3}\\z",
                              "a{2,}b?",
                              "^(ab?)+\\z",
                              "[^ab]",
                              "^[^\\d]\\z",
                              "^\\w+\\z",
                              "\\d{2}",
                              "^(?!a)",
                              "^(?=.*a)(?=.*b)",
                              "^(?!.*aa)[abc]*\\z",
                              "a(?!b)",
                              "a(?=b|c)",
                              "^a(?!.*c)",
                              "(?!a)b",
                              "^(a(?=b)|c)",
                              "^(?:a|(?:b|c){2})\\z",
                              "^.{2}\\z",
                              "[a-c]-[0-1]",
                              "^[\\w.-]+\\z",
                              "^[é-ï]",
                              "^(|a)\\z",
                              "a*?b",
                              "^a+?\\z"}) {
    const Dfa language = pattern_language(pattern);
    const Regex regex(std::string("(*UTF)") + pattern);
    RegexScratch scratch;
    for (int i = 0; i < 400; ++i) {
      const std::string word = random_word(random);
      Regex::Match match;
      // \w and \d match only ASCII here.
      if (std::string_view(pattern).find("\\w") != std::string_view::npos &&
          word.find("é") != std::string::npos)
        continue;
      EXPECT_EQ(language.accepts(word), regex.find(word, 0, scratch, match))
          << pattern << " in '" << word << "'";
    }
  }
}

TEST(Pattern, OperationsMatchThoseOnSets) {
  Random random(4);
  const Dfa a = pattern_language("^a*b"), b = pattern_language("[0-9]"),
            c = pattern_language("^.{2,4}$");
  const Dfa meet = intersect(a, b), join = unite(b, c), rest = subtract(c, a),
            other = a.complement(), three = with_length(b, 3, 3);
  for (int i = 0; i < 3000; ++i) {
    const std::string word = random_word(random);
    const bool in_a = a.accepts(word), in_b = b.accepts(word), in_c = c.accepts(word);
    EXPECT_EQ(meet.accepts(word), in_a && in_b) << word;
    EXPECT_EQ(join.accepts(word), in_b || in_c) << word;
    EXPECT_EQ(rest.accepts(word), in_c && !in_a) << word;
    EXPECT_EQ(other.accepts(word), !in_a) << word;
    const auto length = std::ranges::count_if(
        word, [](char x) { return (static_cast<unsigned char>(x) & 0xC0) != 0x80; });
    EXPECT_EQ(three.accepts(word), in_b && length == 3) << word;
  }
  EXPECT_TRUE(intersect(a, other).empty());
  EXPECT_TRUE(unite(a, other).is_all());
  EXPECT_EQ(Dfa::words({"b", "a", "ab"}).finite_words(3),
            (std::vector<std::string>{"a", "ab", "b"}));
  EXPECT_FALSE(a.finite_words(100));
  EXPECT_EQ(pattern_language("^a{3}|b{5}$").shortest(), 3);
}

// The automaton has as many states as the longest word has letters, because words share suffixes.
TEST(Pattern, WordsShareSuffixes) {
  std::vector<std::string> words;
  for (const char first : std::string_view("abcdefgh"))
    words.push_back(first + std::string(900, 'x'));
  const Dfa language = Dfa::words(words);
  EXPECT_EQ(language.states().size(), 902U);
  EXPECT_EQ(language.finite_words(8), words);
  EXPECT_THROW(Dfa::words({std::string(Dfa::kMostStates, 'x')}), Error);
  EXPECT_EQ(Dfa::words({}).states().size(), 1U);
  EXPECT_TRUE(Dfa::words({}).empty());
}

TEST(Pattern, EqualLanguagesHaveEqualNumbersOfStates) {
  EXPECT_EQ(pattern_language("^(a|b)*$").states().size(),
            pattern_language("^(a*b*)*$").states().size());
  EXPECT_EQ(pattern_language("").states().size(), 1U);
  EXPECT_EQ(pattern_language("^a{2}a*$").states().size(),
            pattern_language("^a{2,}$").states().size());
}

TEST(Pattern, EscapesOfEcmaScript) {
  for (const auto& [pattern, word] :
       std::initializer_list<std::pair<const char*, const char*>>{{"^\\u0041$", "A"},
                                                                  {"^\\x41$", "A"},
                                                                  {"^\\cA$", "\x01"},
                                                                  {"^\\u{1F600}$", "😀"},
                                                                  {"^\\uD83D\\uDE00$", "😀"},
                                                                  {"^\\/$", "/"},
                                                                  {"^[\\]]$", "]"},
                                                                  {"^[a-]$", "-"},
                                                                  {"^a{$", "a{"},
                                                                  {"^\\p{L}$", "é"},
                                                                  {"^\\p{Script=Greek}$", "α"},
                                                                  {"^(?<n>a)$", "a"}})
    EXPECT_TRUE(pattern_language(pattern).accepts(word)) << pattern;
  EXPECT_FALSE(pattern_language("^\\P{L}$").accepts("é"));
}

TEST(Pattern, RejectsUnsupportedPatterns) {
  for (const char* pattern :
       {"(", ")", "[a", "a**b(", "*", "a{3,2}", "\\", "[b-a]", "(?<=a)b", "(a)\\1", "\\bx",
        "\\p{Nowhere}", "(?i)a", "(?:(?=a)a)*b", "a{200000}"})
    EXPECT_THROW(pattern_language(pattern), Error) << pattern;
}

}  // namespace
}  // namespace veery::schema
