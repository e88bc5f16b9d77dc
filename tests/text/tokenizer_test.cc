#include "text/tokenizer.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <random>
#include <sstream>

#include "base/error.h"
#include "file/gguf/gguf.h"
#include "support/vocabularies.h"
#include "text/subword/merge.h"

namespace veery {
namespace {

using test::VocabularyBuilder;
using Ids = std::vector<int32_t>;
constexpr EncodeOptions kPlain{.add_special = false, .parse_special = false};

ErrorKind kind_of(const ModelFile& file, std::string* message = nullptr) {
  try {
    make_tokenizer(file);
  } catch (const Error& error) {
    if (message) *message = error.what();
    return error.kind();
  }
  ADD_FAILURE() << "no error";
  return ErrorKind::kBug;
}

// A vocabulary with merges to "ab" and "abc", "cd" of a worse rank, and special tokens.
VocabularyBuilder small_byte_level() {
  VocabularyBuilder builder;
  builder.add_bytes_of_alphabet();
  builder.join("a", "b");        // 256
  builder.join("ab", "c");       // 257
  builder.join("c", "d");        // 258
  builder.join("\u0120", "a");   // 259: " a"
  builder.join("\u0120a", "b");  // 260
  builder.add("<|bos|>", 3);     // 261
  builder.add("<|im_end|>", 3);  // 262
  builder.add("<think>", 4);     // 263
  builder.add("<think>now", 4);  // 264
  return builder;
}

TEST(ByteLevelBpe, LowestRankMergesFirst) {
  const VocabularyBuilder builder = small_byte_level();
  const auto tokenizer = make_tokenizer(builder.file("gpt2"));
  EXPECT_EQ(tokenizer->encode("abcd"), (Ids{257, 'd'}));
  EXPECT_EQ(tokenizer->encode("cdab"), (Ids{258, 256}));
  EXPECT_EQ(tokenizer->encode("ab ab"), (Ids{256, ' ', 256}));
  EXPECT_EQ(tokenizer->encode(""), Ids{});
}

TEST(ByteLevelBpe, AllBytesSurviveEvenIfTheyAreNotUtf8) {
  const VocabularyBuilder builder = small_byte_level();
  const auto tokenizer = make_tokenizer(builder.file("gpt2"));
  std::mt19937 random(7);
  for (int round = 0; round < 300; ++round) {
    std::string text(random() % 60, ' ');
    for (char& c : text)
      c = static_cast<char>(random() % 3 == 0 ? "abcd \n\xC3\xA9"[random() % 8] : random());
    EXPECT_EQ(tokenizer->decode(tokenizer->encode(text, kPlain)), text);
  }
}

TEST(ByteLevelBpe, EqualsNaiveMerging) {
  VocabularyBuilder builder;
  builder.add_bytes_of_alphabet();
  std::mt19937 random(11);
  std::vector<std::string> made{"a", "b", "c"};
  std::vector<std::pair<std::string, std::string>> merges;
  for (int i = 0; i < 60; ++i) {
    const std::string left = made[random() % made.size()], right = made[random() % made.size()];
    if (left.size() + right.size() > 9 ||
        std::find(made.begin(), made.end(), left + right) != made.end())
      continue;
    builder.join(left, right);
    merges.emplace_back(left, right);
    made.push_back(left + right);
  }
  const auto tokenizer = make_tokenizer(builder.file("gpt2"));
  for (const size_t length : {1, 2, 5, 31, 32, 33, 34, 200}) {
    for (int round = 0; round < 20; ++round) {
      std::vector<std::string> parts;
      std::string text;
      for (size_t i = 0; i < length; ++i) parts.emplace_back(1, "abc"[random() % 3]);
      for (const std::string& part : parts) text += part;
      for (bool joined = true; joined;) {
        joined = false;
        for (const auto& [left, right] : merges) {
          for (size_t i = 0; i + 1 < parts.size() && !joined; ++i) {
            if (parts[i] != left || parts[i + 1] != right) continue;
            parts[i] += right;
            parts.erase(parts.begin() + static_cast<ptrdiff_t>(i) + 1);
            joined = true;
          }
          if (joined) break;
        }
      }
      Ids expected;
      for (const std::string& part : parts) expected.push_back(*tokenizer->find(part));
      EXPECT_EQ(tokenizer->encode(text), expected) << text;
    }
  }
}

TEST(ByteLevelBpe, MissingBytesAreDroppedBeforeMerging) {
  VocabularyBuilder builder;
  builder.add("a");
  builder.add("b");
  builder.join("a", "b");
  const auto tokenizer = make_tokenizer(builder.file("gpt2"));
  EXPECT_EQ(tokenizer->encode("azb"), Ids{2});
  EXPECT_EQ(tokenizer->encode("zz"), Ids{});
}

TEST(ByteLevelBpe, IgnoreMergesKeepsAWordThatIsAToken) {
  VocabularyBuilder builder;
  builder.add_bytes_of_alphabet();
  builder.add("xyz");  // no merge produces it
  EXPECT_EQ(make_tokenizer(builder.file("gpt2", "llama-bpe"))->encode("xyz", kPlain), Ids{256});
  EXPECT_EQ(make_tokenizer(builder.file("gpt2", "gpt-2"))->encode("xyz", kPlain).size(), 3U);
}

TEST(ByteLevelBpe, QwenNormalisesToNfcAndGpt2DoesNot) {
  VocabularyBuilder builder;
  builder.add_bytes_of_alphabet();
  const std::string decomposed = "e\u0301", composed = "\u00E9";
  const auto qwen = make_tokenizer(builder.file("gpt2", "qwen2"));
  EXPECT_EQ(qwen->decode(qwen->encode(decomposed)), composed);
  const auto gpt = make_tokenizer(builder.file("gpt2", "gpt-2"));
  EXPECT_EQ(gpt->decode(gpt->encode(decomposed)), decomposed);
}

TEST(ByteLevelBpe, PlainBytesWithSpaceMarks) {
  VocabularyBuilder builder;
  builder.add_byte_tokens();
  const int32_t mark = builder.add("\u2581"), a = builder.add("a");
  const int32_t both = builder.join("\u2581", "a"), lines = builder.add("\n\n");
  const auto tokenizer = make_tokenizer(builder.file("gemma4"));
  EXPECT_EQ(tokenizer->encode("a a \n\n"), (Ids{a, both, mark, lines}));
  EXPECT_EQ(tokenizer->encode("\u00E9"), (Ids{0xC3, 0xA9}));
  EXPECT_EQ(tokenizer->decode({a, both, 0xC3, 0xA9}), "a a\u00E9");
}

TEST(SpecialTokens, AreParsedOnRequestButUserDefinedOnesAlways) {
  const VocabularyBuilder builder = small_byte_level();
  const auto tokenizer = make_tokenizer(builder.file("gpt2"));
  EXPECT_EQ(tokenizer->encode("ab<|im_end|><think>"), (Ids{256, 262, 263}));
  const Ids plain = tokenizer->encode("<|im_end|><think>", kPlain);
  EXPECT_EQ(std::count(plain.begin(), plain.end(), 262), 0);
  EXPECT_EQ(plain.back(), 263);
  EXPECT_EQ(tokenizer->decode(plain), "<|im_end|><think>");
}

TEST(SpecialTokens, LeftmostLongestMatchWins) {
  const VocabularyBuilder builder = small_byte_level();
  const auto tokenizer = make_tokenizer(builder.file("gpt2"));
  EXPECT_EQ(tokenizer->encode("<think>now<think>no"), (Ids{264, 263, 'n', 'o'}));
  EXPECT_EQ(tokenizer->encode("<thin<think>").back(), 263);
}

TEST(SpecialTokens, AddsBosAndEosByTheModelsFlags) {
  const VocabularyBuilder builder = small_byte_level();
  ModelFile file = builder.file("gpt2");
  file.metadata.set("tokenizer.ggml.bos_token_id", int64_t{261});
  file.metadata.set("tokenizer.ggml.eos_token_id", int64_t{262});
  EXPECT_EQ(make_tokenizer(file)->encode("ab"), Ids{256});
  file.metadata.set("tokenizer.ggml.add_bos_token", true);
  file.metadata.set("tokenizer.ggml.add_eos_token", true);
  const auto tokenizer = make_tokenizer(file);
  EXPECT_EQ(tokenizer->encode("ab"), (Ids{261, 256, 262}));
  EXPECT_EQ(tokenizer->encode(""), (Ids{261, 262}));
  EXPECT_EQ(tokenizer->encode("ab", kPlain), Ids{256});
}

TEST(SpecialTokens, EndsAreFoundByRoleAndByName) {
  VocabularyBuilder builder = small_byte_level();
  const int32_t eot = builder.add("<|eot_id|>");  // wrong type in the file
  const int32_t html = builder.add("</s>", 4);    // a word of HTML in this vocabulary
  ModelFile file = builder.file("gpt2");
  file.metadata.set("tokenizer.ggml.eos_token_id", int64_t{261});
  const auto tokenizer = make_tokenizer(file);
  EXPECT_EQ(tokenizer->special().ends, (Ids{261, 262, eot}));
  EXPECT_EQ(tokenizer->special().eot, eot);
  EXPECT_TRUE(tokenizer->ends(262));
  EXPECT_FALSE(tokenizer->ends(html));
  EXPECT_EQ(tokenizer->piece(eot), "");
  EXPECT_EQ(tokenizer->piece(eot, true), "<|eot_id|>");
}

TEST(SpecialTokens, HarmonyMessageEndDoesNotEndTheAnswer) {
  VocabularyBuilder builder;
  builder.add_bytes_of_alphabet();
  for (const char* name : {"<|end|>", "<|return|>", "<|call|>", "<|channel|>"})
    builder.add(name, 3);
  const auto tokenizer = make_tokenizer(builder.file("gpt2"));
  EXPECT_EQ(tokenizer->special().ends, (Ids{257, 258}));
  EXPECT_EQ(tokenizer->piece(259), "<|channel|>");
}

TEST(SpecialTokens, AbsorbFollowingSpacesInPhi3) {
  VocabularyBuilder builder = small_byte_level();
  ModelFile file = builder.file("gpt2");
  EXPECT_EQ(make_tokenizer(file)->encode("<|im_end|> \nab").size(), 4U);
  file.metadata.set("general.name", std::string("Phi-3 mini"));
  EXPECT_EQ(make_tokenizer(file)->encode("<|im_end|> \nab"), (Ids{262, 256}));
}

VocabularyBuilder small_sentencepiece() {
  VocabularyBuilder builder;
  builder.add("<unk>", 2);
  builder.add("<s>", 3);
  builder.add("</s>", 3);
  builder.add_byte_tokens();  // id: 3 + byte
  double score = 0;
  for (const char* token : {"\u2581", "a", "b", "ab", "\u2581a", "aa", "aaaa", "<s", ">"})
    builder.add(token, 1, score--);  // ids from 259
  return builder;
}

TEST(SentencePieceBpe, HighestScoreMergesFirst) {
  const VocabularyBuilder builder = small_sentencepiece();
  const auto tokenizer = make_tokenizer(builder.file("llama"));
  EXPECT_EQ(tokenizer->encode("ab"), (Ids{1, 259, 262}));
  EXPECT_EQ(tokenizer->encode("a b", kPlain), (Ids{263, 259, 261}));
  EXPECT_EQ(tokenizer->encode(""), Ids{1});
}

TEST(SentencePieceBpe, UnknownCharactersBecomeBytes) {
  const VocabularyBuilder builder = small_sentencepiece();
  const auto tokenizer = make_tokenizer(builder.file("llama"));
  EXPECT_EQ(tokenizer->encode("\u00E9\xFF", kPlain), (Ids{259, 3 + 0xC3, 3 + 0xA9, 3 + 0xFF}));
  EXPECT_EQ(tokenizer->decode(tokenizer->encode("a\u00E9\xFF\n b")), "a\u00E9\xFF\n b");
}

TEST(SentencePieceBpe, WithoutByteTokensACharacterBecomesOneUnknownToken) {
  VocabularyBuilder builder;
  builder.add("<unk>", 2);
  builder.add("a", 1, -1);
  ModelFile file = builder.file("llama");
  file.metadata.set("tokenizer.ggml.add_space_prefix", false);
  EXPECT_EQ(make_tokenizer(file)->encode("a\u00E9a", kPlain), (Ids{1, 0, 1}));
}

TEST(SentencePieceBpe, TextNeverBecomesAControlToken) {
  const VocabularyBuilder builder = small_sentencepiece();
  const auto tokenizer = make_tokenizer(builder.file("llama"));
  EXPECT_EQ(tokenizer->encode("<s>", kPlain), (Ids{259, 266, 267}));
  EXPECT_EQ(tokenizer->encode("<s>a", {.add_special = false}), (Ids{1, 263}));
}

TEST(SentencePieceBpe, AddsAndRemovesTheSpacePrefix) {
  const VocabularyBuilder builder = small_sentencepiece();
  ModelFile file = builder.file("llama");
  const auto with = make_tokenizer(file);
  for (const char* text : {"a", " a", "  a ", "", "ab  ab"})
    EXPECT_EQ(with->decode(with->encode(text)), text);
  file.metadata.set("tokenizer.ggml.add_space_prefix", false);
  const auto without = make_tokenizer(file);
  EXPECT_EQ(without->encode("a", kPlain), Ids{260});
  EXPECT_EQ(without->decode(without->encode(" a")), " a");
}

TEST(SentencePieceBpe, RemovesExtraSpacesIfTheModelSaysSo) {
  const VocabularyBuilder builder = small_sentencepiece();
  ModelFile file = builder.file("llama");
  file.metadata.set("tokenizer.ggml.remove_extra_whitespaces", true);
  const auto tokenizer = make_tokenizer(file);
  EXPECT_EQ(tokenizer->encode("  a   a  "), tokenizer->encode("a a"));
  EXPECT_EQ(tokenizer->encode("   "), Ids{1});
}

TEST(SentencePieceBpe, UserDefinedRunsOfSpacesTakePrecedence) {
  VocabularyBuilder builder = small_sentencepiece();
  const int32_t two = builder.add("  ", 4);
  ModelFile file = builder.file("llama");
  file.metadata.set("tokenizer.ggml.add_space_prefix", false);
  const auto tokenizer = make_tokenizer(file);
  EXPECT_EQ(tokenizer->encode("   a", kPlain), (Ids{two, 263}));
  EXPECT_EQ(tokenizer->encode("\u2581\u2581b", kPlain), (Ids{two, 261}));
  EXPECT_EQ(tokenizer->encode(" \u2581b", kPlain), (Ids{two, 261}));
}

// Splitting at spaces must not change the tokens of the whole text.
TEST(SentencePieceBpe, FindsTokensThatContainASpace) {
  VocabularyBuilder builder = small_sentencepiece();
  const int32_t across = builder.add("b\u2581a", 1, 5);
  const auto tokenizer = make_tokenizer(builder.file("llama"));
  EXPECT_EQ(tokenizer->encode("ab ab", kPlain),
            (Ids{259, 262, 259, 262}));  // "b_" is not a token, so no merge produces "b_a"
  builder.add("b\u2581", 1, 6);
  EXPECT_EQ(make_tokenizer(builder.file("llama"))->encode("b a", kPlain), (Ids{259, across}));
}

TEST(GreedyTokenizer, TakesTheLongestTokenAtEachPosition) {
  VocabularyBuilder builder;
  builder.add("<s>", 3);
  for (const char* token : {"a", "ab", "abcd", "b", "c", "\\n", "\\n\\n", "\\xe2\\x82", "\\x82",
                            "\\\\", "\\'", "ab", "d"})  // the second "ab" is never matched
    builder.add(token);
  builder.add("abc", 5);  // unused
  const auto tokenizer = make_tokenizer(builder.file("rwkv"));
  EXPECT_EQ(tokenizer->encode("abcd", kPlain), Ids{3});
  EXPECT_EQ(tokenizer->encode("abcabcd", kPlain), (Ids{2, 5, 3}));
  EXPECT_EQ(tokenizer->encode("\n\n\na", kPlain), (Ids{7, 6, 1}));
  EXPECT_EQ(tokenizer->encode("\xe2\x82\x82\\'", kPlain), (Ids{8, 9, 10, 11}));
  EXPECT_EQ(tokenizer->decode({8, 9, 10, 11, 0}), "\xe2\x82\x82\\'");
  LostBytes lost;
  EXPECT_EQ(tokenizer->encode("azb\xe2", {.add_special = false, .lost = &lost}), (Ids{1, 4}));
  EXPECT_EQ(lost.count, 2U);
  EXPECT_EQ(lost.first, 1U);
}

// Compares tokens of all lengths over two letters with a naive implementation.
TEST(GreedyTokenizer, EqualsNaiveLongestMatch) {
  std::mt19937 random(5);
  const auto word = [&](size_t length) {
    std::string text;
    while (text.size() < length) text += random() % 2 == 0 ? 'a' : 'b';
    return text;
  };
  VocabularyBuilder builder;
  std::vector<std::string> tokens{"a", "b"};
  for (int i = 0; i < 60; ++i) tokens.push_back(word(2 + random() % 9));
  for (const std::string& token : tokens) builder.add(token);
  const auto tokenizer = make_tokenizer(builder.file("rwkv"));
  for (int i = 0; i < 50; ++i) {
    const std::string text = word(1 + random() % 70);
    std::string joined;
    for (size_t at = 0; at < text.size();) {
      size_t best = 0;
      for (const std::string& token : tokens)
        if (text.compare(at, token.size(), token) == 0) best = std::max(best, token.size());
      joined += text.substr(at, best) + '|';
      at += best;
    }
    std::string found;
    for (const int32_t id : tokenizer->encode(text, kPlain)) found += tokenizer->piece(id) + '|';
    EXPECT_EQ(found, joined);
  }
}

TEST(Tokenizer, LongRunsAreNotQuadratic) {
  const std::string run(1'000'000, 'a');
  const auto begin = std::chrono::steady_clock::now();
  const VocabularyBuilder scores = small_sentencepiece();
  const auto by_score = make_tokenizer(scores.file("llama"));
  EXPECT_EQ(by_score->decode(by_score->encode(run)), run);
  VocabularyBuilder merges = small_byte_level();
  merges.join("a", "a");
  const auto by_rank = make_tokenizer(merges.file("gpt2"));
  EXPECT_EQ(by_rank->encode(run).size(), 500'000U);
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - begin;
  EXPECT_LT(seconds.count(), 60);  // a quadratic algorithm takes hours
}

TEST(Tokenizer, TokenAndFindAreInverse) {
  const VocabularyBuilder builder = small_byte_level();
  const auto tokenizer = make_tokenizer(builder.file("gpt2"));
  for (int32_t id = 0; id < tokenizer->size(); ++id)
    EXPECT_EQ(tokenizer->find(tokenizer->token(id)), id);
  EXPECT_EQ(tokenizer->token(259), "\u0120a");
  EXPECT_EQ(tokenizer->find("no such token"), std::nullopt);
}

TEST(Tokenizer, RejectsIdsOutsideTheVocabulary) {
  const VocabularyBuilder builder = small_byte_level();
  const auto tokenizer = make_tokenizer(builder.file("gpt2"));
  for (const int32_t id : {-1, tokenizer->size(), INT32_MAX, INT32_MIN}) {
    EXPECT_THROW(tokenizer->piece(id), Error);
    EXPECT_THROW(tokenizer->token(id), Error);
    EXPECT_THROW(tokenizer->decode({0, id}), Error);
  }
}

TEST(TokenizerErrors, NameTheKey) {
  const VocabularyBuilder builder = small_byte_level();
  std::string message;
  const auto expect = [&](const ModelFile& file, ErrorKind kind, std::string_view part) {
    EXPECT_EQ(kind_of(file, &message), kind) << part;
    EXPECT_NE(message.find(part), std::string::npos) << message;
  };
  expect(ModelFile{}, ErrorKind::kFormat, "tokenizer.ggml.model");
  expect(builder.file("plamo2"), ErrorKind::kUnsupported, "plamo2");
  for (const char* escape : {"a\\x4", "\\xg0", "\\", "\\q"}) {
    VocabularyBuilder escaped;
    escaped.add(escape);
    expect(escaped.file("rwkv"), ErrorKind::kFormat, "tokenizer.ggml.tokens has '");
  }
  expect(builder.file("gpt2", "no-such"), ErrorKind::kUnsupported, "no-such");
  expect(VocabularyBuilder().file("gpt2"), ErrorKind::kFormat, "tokenizer.ggml.tokens is empty");

  ModelFile file = builder.file("gpt2");
  file.metadata.set("tokenizer.ggml.token_type", std::vector<int64_t>{1});
  expect(file, ErrorKind::kFormat, "tokenizer.ggml.token_type has 1");

  file = builder.file("gpt2");
  file.metadata.set("tokenizer.ggml.scores", std::vector<double>{1, 2});
  expect(file, ErrorKind::kFormat, "tokenizer.ggml.scores has 2");

  for (const int64_t id : {int64_t{265}, int64_t{-2}, int64_t{1} << 40}) {
    file = builder.file("gpt2");
    file.metadata.set("tokenizer.ggml.eos_token_id", id);
    expect(file, ErrorKind::kFormat, "tokenizer.ggml.eos_token_id");
  }
  file = builder.file("gpt2");
  file.metadata.set("tokenizer.ggml.merges", std::vector<std::string_view>{"ab"});
  expect(file, ErrorKind::kFormat, "tokenizer.ggml.merges[0]");

  ModelFile scoreless;
  scoreless.metadata.set("tokenizer.ggml.model", std::string("llama"));
  scoreless.metadata.set("tokenizer.ggml.tokens", std::vector<std::string_view>{"a"});
  expect(scoreless, ErrorKind::kFormat, "tokenizer.ggml.scores");
}

TEST(TokenizerErrors, HarmlessDefectsAreTolerated) {
  VocabularyBuilder builder = small_byte_level();
  builder.add("");
  builder.add("ab");                 // duplicate token
  builder.add("\xFF\xFE");           // not UTF-8
  builder.merge("nobody", "knows");  // unknown tokens
  builder.merge("\xFF", "a");
  ModelFile file = builder.file("gpt2");
  file.metadata.set("tokenizer.ggml.padding_token_id", int64_t{9999});
  file.metadata.set("tokenizer.ggml.bos_token_id",
                    int64_t{0xFFFFFFFF});  // "none" as some tools write it
  const auto tokenizer = make_tokenizer(file);
  EXPECT_EQ(tokenizer->special().pad, -1);
  EXPECT_EQ(tokenizer->special().bos, -1);
  EXPECT_EQ(tokenizer->encode("ab"), Ids{256});
  for (int32_t id = 0; id < tokenizer->size(); ++id) tokenizer->piece(id, true);
}

// Both merge algorithms give the same result.
TEST(JoinSymbols, HeapEqualsLoop) {
  std::mt19937 random(3);
  JoinScratch scratch;
  for (int round = 0; round < 2000; ++round) {
    std::map<std::pair<int32_t, int32_t>, Join> table;
    for (int i = 0; i < 12; ++i)
      table[{static_cast<int32_t>(random() % 8), static_cast<int32_t>(random() % 8)}] = {
          static_cast<uint32_t>(random() % 6), static_cast<int32_t>(random() % 8)};
    std::vector<TextSymbol> few(random() % 33);
    for (uint32_t i = 0; i < few.size(); ++i)
      few[i] = {static_cast<int32_t>(random() % 4), i, i + 1};
    std::vector<TextSymbol> many = few;
    const auto join_of = [&](const TextSymbol& left, const TextSymbol& right) {
      const auto found = table.find({left.id, right.id});
      return found == table.end() ? Join{} : found->second;
    };
    if (few.empty()) continue;
    few.resize(join_few(std::span<TextSymbol>(few), join_of));
    many.resize(join_many(std::span<TextSymbol>(many), join_of, scratch));
    ASSERT_EQ(few.size(), many.size());
    for (size_t i = 0; i < few.size(); ++i) {
      EXPECT_EQ(few[i].id, many[i].id);
      EXPECT_EQ(few[i].end, many[i].end);
    }
  }
}

std::string contents(const std::filesystem::path& path) {
  std::ifstream in(path, std::ios::binary);
  std::stringstream text;
  text << in.rdbuf();
  return text.str();
}

// Vocabularies of published models with the ids of their own tokenizers, if they are available
// beside the checkout.
TEST(PublishedVocabularies, MatchRecordedIds) {
  const std::filesystem::path folder = VEERY_SOURCE_DIR "/../shared/vocab-gguf";
  if (!std::filesystem::exists(folder)) GTEST_SKIP() << folder << " is not there";
  constexpr std::string_view kSeparator = "\n__ggml_vocab_test__\n";
  int vocabularies = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    const std::string path = entry.path().string();
    if (entry.path().extension() != ".gguf" || !std::filesystem::exists(path + ".out")) continue;
    const auto tokenizer = make_tokenizer(open_gguf(path));
    const std::string texts = contents(path + ".inp");
    std::istringstream lines(contents(path + ".out"));
    size_t at = 0;
    for (std::string line; std::getline(lines, line);) {
      std::istringstream numbers(line);
      const Ids expected{std::istream_iterator<int32_t>(numbers), {}};
      const size_t end = std::min(texts.find(kSeparator, at), texts.size());
      const std::string text = texts.substr(at, end - at);
      EXPECT_EQ(tokenizer->encode(text, kPlain), expected) << path << ": " << text;
      at = end + kSeparator.size();
    }
    ++vocabularies;
  }
  EXPECT_GT(vocabularies, 4);
}

}  // namespace
}  // namespace veery
