#include "text/split/pre_tokenizer.h"

#include <gtest/gtest.h>

#include <random>
#include <set>

#include "base/utf8.h"

namespace veery {
namespace {

using Words = std::vector<std::string>;

Words split(std::string_view name, std::string_view text) {
  const PreTokenizer pre_tokenizer(find_pre_tokenizer(name)->patterns);
  std::vector<uint32_t> ends;
  pre_tokenizer.split(text, ends);
  Words words;
  size_t begin = 0;
  for (const uint32_t end : ends) {
    words.emplace_back(text.substr(begin, end - begin));
    begin = end;
  }
  EXPECT_EQ(begin, text.size());
  return words;
}

TEST(PreTokenizer, Gpt2) {
  EXPECT_EQ(split("gpt-2", "Hello  world's 12345!?\n\nx "),
            (Words{"Hello", " ", " world", "'s", " 12345", "!?", "\n", "\n", "x", " "}));
  EXPECT_EQ(split("gpt-2", "HE'LL"), (Words{"HE", "'", "LL"}));
}

TEST(PreTokenizer, Llama3) {
  EXPECT_EQ(split("llama-bpe", "HE'LL pay $12345\r\n\n  now"),
            (Words{"HE", "'LL", " pay", " $", "123", "45", "\r\n\n", " ", " now"}));
}

TEST(PreTokenizer, Qwen2AndSmolLmSplitEveryDigit) {
  EXPECT_EQ(split("qwen2", "a12 34"), (Words{"a", "1", "2", " ", "3", "4"}));
  EXPECT_EQ(split("smollm", "a12 34"), (Words{"a", "1", "2", " ", "3", "4"}));
}

TEST(PreTokenizer, TekkenAndGpt4oSplitBetweenCases) {
  EXPECT_EQ(split("tekken", "getHTTPServer's"), (Words{"get", "HTTPServer", "'s"}));
  EXPECT_EQ(split("gpt-4o", "camelCase's 1234"), (Words{"camel", "Case's", " ", "123", "4"}));
}

TEST(PreTokenizer, DigitGroupsFromTheRight) {
  EXPECT_EQ(split("afmoe", "1234567 12"), (Words{"1", "234", "567", " ", "12"}));
  EXPECT_EQ(split("superbpe", "1234567"), (Words{"1", "234", "567"}));
  EXPECT_EQ(split("tiny_aya", "12345"), (Words{"12", "345"}));
}

TEST(PreTokenizer, DeepSeek) {
  EXPECT_EQ(split("deepseek-v3", "x=1234\u4F60\u597Dabc"),
            (Words{"x", "=", "123", "4", "\u4F60\u597D", "abc"}));
  EXPECT_EQ(split("deepseek-llm", "ab  \n cd  "), (Words{"ab", "  ", "\n", " cd", "  "}));
  EXPECT_EQ(split("kimi-k2", "\u4F60\u597Dabc's"), (Words{"\u4F60\u597D", "abc's"}));
}

TEST(PreTokenizer, WhitespaceFollowsUnicode) {
  EXPECT_EQ(split("gpt-2", "a\u3000\u00A0\u0085b"), (Words{"a", "\u3000\u00A0", "\u0085", "b"}));
  EXPECT_EQ(split("gpt-2", "a\u180Eb"), (Words{"a", "\u180E", "b"}));
  EXPECT_EQ(split("llama-bpe", "!\u180E!"), (Words{"!\u180E!"}));  // U+180E is a format character
}

TEST(PreTokenizer, NamesAreUniqueAndUnknownOnesHaveNoEntry) {
  std::set<std::string_view> names;
  for (const PreTokenizerInfo& info : all_pre_tokenizers())
    EXPECT_TRUE(names.insert(info.name).second);
  EXPECT_EQ(find_pre_tokenizer("no-such"), nullptr);
  EXPECT_EQ(find_pre_tokenizer(""), nullptr);
}

TEST(PreTokenizer, EveryPatternCoversAnyText) {
  std::mt19937 random(17);
  constexpr std::string_view kParts[] = {
      "a",        "Bc",     "'s",     "'LL",     " ",      "\n",     "\r\n",     "12",
      "7",        "!?",     "_",      "/",       "\t",     "\u00E9", "\u4F60",   "\xFF",
      "\xE4\xBD", "\u3042", "\u0E01", "e\u0301", "\u2028", "$",      "IMGIMGABZ"};
  for (const PreTokenizerInfo& info : all_pre_tokenizers()) {
    const PreTokenizer pre_tokenizer(info.patterns);
    for (int round = 0; round < 40; ++round) {
      std::string text;
      for (size_t i = 0, n = random() % 20; i < n; ++i)
        text += kParts[random() % std::size(kParts)];
      std::vector<uint32_t> ends;
      pre_tokenizer.split(text, ends);
      uint32_t before = 0;
      for (const uint32_t end : ends) {
        EXPECT_GT(end, before) << info.name;
        before = end;
      }
      EXPECT_EQ(before, text.size()) << info.name;
    }
  }
}

TEST(PreTokenizer, LongRunsEndInTime) {
  for (const PreTokenizerInfo& info : all_pre_tokenizers()) {
    const PreTokenizer pre_tokenizer(info.patterns);
    for (const char* unit : {"a", " ", "1", "!", "\n", "A", "\u4F60", "e\u0301", "a "}) {
      std::string text;
      while (text.size() < 20'000) text += unit;
      std::vector<uint32_t> ends;
      pre_tokenizer.split(text, ends);
      EXPECT_EQ(ends.back(), text.size()) << info.name << " " << unit;
    }
  }
}

}  // namespace
}  // namespace veery
