#include <gtest/gtest.h>

#include <random>

#include "base/utf8.h"
#include "support/vocabularies.h"
#include "text/tokenizer.h"

namespace veery {
namespace {

using test::VocabularyBuilder;

std::unique_ptr<Tokenizer> bytes_only() {
  VocabularyBuilder builder;
  builder.add_bytes_of_alphabet();
  builder.add("<|im_end|>", 3);
  return make_tokenizer(builder.file("gpt2"));
}

TEST(Detokenizer, NeverSplitsACharacter) {
  const auto tokenizer = bytes_only();
  const std::string text = "a\u00E9\u4F60\U0001F600z";
  Detokenizer detokenizer(*tokenizer);
  std::string joined;
  for (const int32_t id : tokenizer->encode(text)) {
    const std::string part = detokenizer.push(id);
    EXPECT_EQ(valid_utf8(part), part);
    EXPECT_EQ(part.find("\uFFFD"), std::string::npos);
    joined += part;
  }
  EXPECT_EQ(joined + detokenizer.finish(), text);
}

TEST(Detokenizer, ConcatenatedPartsEqualTheDecodedText) {
  const auto tokenizer = bytes_only();
  std::mt19937 random(5);
  for (int round = 0; round < 500; ++round) {
    std::vector<int32_t> ids(random() % 12);
    for (int32_t& id : ids)
      id = static_cast<int32_t>(random() % 3 == 0 ? random() % 257 : 160 + random() % 97);
    Detokenizer detokenizer(*tokenizer);
    std::string joined;
    for (const int32_t id : ids) joined += detokenizer.push(id);
    EXPECT_EQ(joined + detokenizer.finish(), valid_utf8(tokenizer->decode(ids)));
  }
}

TEST(Detokenizer, FinishReturnsAnIncompleteCharacter) {
  const auto tokenizer = bytes_only();
  Detokenizer detokenizer(*tokenizer);
  const std::vector<int32_t> ids = tokenizer->encode("\xE4\xBD");
  EXPECT_EQ(detokenizer.push(ids[0]), "");
  EXPECT_EQ(detokenizer.push(ids[1]), "");
  EXPECT_EQ(detokenizer.finish(), "\uFFFD");
  EXPECT_EQ(detokenizer.finish(), "");
}

TEST(Detokenizer, DropsOnlyTheSpaceThatTheTokenizerAdded) {
  VocabularyBuilder builder;
  builder.add("<unk>", 2);
  builder.add("<s>", 3);
  const int32_t word = builder.add("\u2581a", 1, -1);
  const auto tokenizer = make_tokenizer(builder.file("llama"));
  Detokenizer start(*tokenizer);
  EXPECT_EQ(start.push(1), "");
  EXPECT_EQ(start.push(word), "a");
  EXPECT_EQ(start.push(word), " a");
  Detokenizer later(*tokenizer, false, true);
  EXPECT_EQ(later.push(word), " a");
}

TEST(Detokenizer, ShowsControlTokensOnlyOnRequest) {
  const auto tokenizer = bytes_only();
  EXPECT_EQ(Detokenizer(*tokenizer).push(256), "");
  EXPECT_EQ(Detokenizer(*tokenizer, true).push(256), "<|im_end|>");
}

}  // namespace
}  // namespace veery
