// Bytes that no token can represent are dropped, as in the models' own tokenizers, and counted.
#include <gtest/gtest.h>

#include "support/vocabularies.h"
#include "text/format/tokenizer_json.h"

namespace veery {
namespace {

using test::VocabularyBuilder;
using Ids = std::vector<int32_t>;

struct Encoded {
  Ids ids;
  LostBytes lost;
};

Encoded encode(const Tokenizer& tokenizer, std::string_view text) {
  Encoded result;
  result.ids = tokenizer.encode(text, {.add_special = false, .lost = &result.lost});
  EXPECT_EQ(result.ids, tokenizer.encode(text, {.add_special = false}));
  return result;
}

void expect_lost(const Tokenizer& tokenizer, std::string_view text, size_t count, size_t first) {
  const LostBytes lost = encode(tokenizer, text).lost;
  EXPECT_EQ(lost.count, count) << text;
  EXPECT_EQ(lost.first, first) << text;
}

// A vocabulary of all bytes except 0x04 and 0xF1, and a special token.
std::unique_ptr<Tokenizer> lossy(const std::string& pre) {
  VocabularyBuilder builder;
  for (int byte = 0; byte < 256; ++byte) {
    const char c = static_cast<char>(byte);
    builder.add(byte == 0x04 || byte == 0xF1 ? fmt::format("<unused {}>", byte)
                                             : to_alphabet({&c, 1}));
  }
  builder.add("<|im_end|>", 3);
  return make_tokenizer(builder.file("gpt2", pre));
}

TEST(LostBytes, AreCountedWithTheFirstOffset) {
  const auto tokenizer = lossy("gpt-2");
  EXPECT_EQ(encode(*tokenizer, "a\x04z").ids, (Ids{'a', 'z'}));
  expect_lost(*tokenizer, "a\x04z\xF1\x04", 3, 1);
  expect_lost(*tokenizer, "ab<|im_end|>cd\x04", 1, 14);
  expect_lost(*tokenizer, "all of it", 0, 0);
  expect_lost(*tokenizer, "\x04", 1, 0);
}

TEST(LostBytes, OffsetOfARewrittenPartIsItsStart) {
  expect_lost(*lossy("qwen2"), "ab<|im_end|>e\u0301 \x04", 1, 12);  // NFC composes e and the accent
}

TEST(LostBytes, AddToAnExistingCount) {
  const auto tokenizer = lossy("gpt-2");
  LostBytes lost;
  tokenizer->encode("a\x04", {.lost = &lost});
  tokenizer->encode("abc\x04\x04", {.lost = &lost});
  EXPECT_EQ(lost.count, 3U);
  EXPECT_EQ(lost.first, 1U);
}

std::unique_ptr<Tokenizer> from_json(const std::string& model, const std::string& normalizer,
                                     const std::string& splitter) {
  const std::string json = fmt::format(
      R"({{"added_tokens": [{{"id": 9, "content": "<s>", "single_word": false, "lstrip": false,
          "rstrip": false, "normalized": false, "special": true}}],
          "normalizer": {}, "pre_tokenizer": {}, "post_processor": null, "decoder": null,
          "model": {}}})",
      normalizer, splitter, model);
  Pipeline pipeline = read_tokenizer_json(json, "test.json");
  const Metadata roles = roles_of(pipeline);
  return std::make_unique<PipelineTokenizer>(std::move(pipeline), roles);
}

constexpr const char* kBpe = R"({"type": "BPE", "vocab": {"a": 0, "b": 1, "ab": 2, "c": 3},
                                 "merges": ["a b"]})";
constexpr const char* kWords = R"({"type": "WhitespaceSplit"})";

TEST(LostBytes, AreCountedForEachModelType) {
  const auto bpe = from_json(kBpe, "null", kWords);
  EXPECT_EQ(encode(*bpe, "ab x\u00e9c").ids, (Ids{2, 3}));
  expect_lost(*bpe, "ab x\u00e9c", 3, 3);
  expect_lost(*bpe, "ab<s> ab z", 1, 9);
  const auto unigram =
      from_json(R"({"type": "Unigram", "unk_id": null, "vocab": [["a", -1.0], ["b", -1.5]]})",
                "null", kWords);
  expect_lost(*unigram, "ab xya", 2, 3);
  const auto words = from_json(
      R"({"type": "WordLevel", "vocab": {"a": 0, "b": 1}, "unk_token": "<unk>"})", "null", kWords);
  expect_lost(*words, "a xyz b", 3, 2);
  const auto pieces = from_json(
      R"({"type": "WordPiece", "vocab": {"a": 0, "##b": 1}, "unk_token": "[UNK]",
          "continuing_subword_prefix": "##", "max_input_chars_per_word": 100})",
      "null", kWords);
  expect_lost(*pieces, "ab axb", 3, 3);
}

TEST(LostBytes, OffsetAfterANormalizerIsTheStartOfThePart) {
  const auto tokenizer = from_json(kBpe, R"({"type": "Lowercase"})", kWords);
  expect_lost(*tokenizer, "AB<s>ab z", 1, 5);
}

TEST(LostBytes, RepeatedWordsAreCountedEachTime) {
  const auto tokenizer = from_json(kBpe, "null", kWords);
  std::string text;
  for (int i = 0; i < 3000; ++i) text += "ab axb ";  // long enough for the word cache
  expect_lost(*tokenizer, text, 3000, 4);
}

}  // namespace
}  // namespace veery
