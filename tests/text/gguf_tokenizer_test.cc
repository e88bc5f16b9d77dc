// Tokenizers of model folders, converted to GGUF metadata and read back.
#include "text/format/gguf_tokenizer.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "base/error.h"
#include "support/models.h"
#include "support/temporary_folder.h"
#include "support/tiktoken_ranks.h"
#include "text/common/base64.h"
#include "text/format/tokenizer_folder.h"

namespace veery {
namespace {

constexpr int64_t kRows = 40;
constexpr EncodeOptions kPlain{.add_special = false, .parse_special = false};

// Returns a tokenizer.json with the given parts.
std::string file_of(const std::string& model, const std::string& parts) {
  return R"({"added_tokens":[{"id":0,"content":"<unk>","special":true},
             {"id":1,"content":"<s>","special":true},{"id":2,"content":"<tool>","special":false}],)" +
         parts + R"("model":)" + model + "}";
}

std::string byte_level(const std::string& pattern) {
  const std::string model =
      R"({"type":"BPE","vocab":{"a":3,"b":4,"Ġ":5,"1":6,"!":7,"<unk>":0,"<s>":1,"<tool>":2},"merges":[]})";
  return file_of(model, R"("pre_tokenizer":{"type":"Sequence","pretokenizers":[
      {"type":"Split","pattern":{"Regex":")" +
                            pattern + R"("},"behavior":"Isolated"},
      {"type":"ByteLevel","add_prefix_space":false,"use_regex":true}]},)");
}

ErrorKind kind_of(const std::string& json, std::string& message) {
  const test::TemporaryFolder folder;
  folder.write("tokenizer.json", json);
  Metadata metadata;
  try {
    add_gguf_tokenizer(folder.path(), kRows, metadata);
  } catch (const Error& error) {
    message = error.what();
    return error.kind();
  }
  ADD_FAILURE() << "no error";
  return {};
}

void expect_same_ids(const std::string& json, const std::string& model) {
  const test::TemporaryFolder folder;
  folder.write("tokenizer.json", json);
  ModelFile file;
  add_gguf_tokenizer(folder.path(), kRows, file.metadata);
  EXPECT_EQ(file.metadata.text("tokenizer.ggml.model"), model);
  const auto written = make_tokenizer(file);
  const auto tokenizer = load_tokenizer_folder(folder.path());
  ASSERT_EQ(written->size(), kRows);
  for (const char* text :
       {"", "a", "ab ba", "b a<s>ab", "a<tool> b", "abab11!", "x ab", "aab bba"}) {
    EXPECT_EQ(written->encode(text), tokenizer->encode(text)) << text;
    // In GGUF, text never becomes a special token by its spelling.
    if (std::string_view(text).find("<s>") != std::string_view::npos) continue;
    EXPECT_EQ(written->encode(text, kPlain), tokenizer->encode(text, kPlain)) << text;
  }
}

TEST(GgufTokenizer, ByteLevelBpeWithoutMergesHasAnEmptyList) {
  expect_same_ids(byte_level(R"(\\p{N})"), "gpt2");
}

TEST(GgufTokenizer, SentencePieceUnigramKeepsItsScores) {
  const std::string model =
      R"({"type":"Unigram","unk_id":0,"vocab":[["<unk>",0],["<s>",0],["<tool>",0],["▁",-2],["a",-3],
          ["b",-3],["ab",-4],["▁a",-4.5],["▁ab",-6],["ba",-5]]})";
  expect_same_ids(file_of(model, R"("pre_tokenizer":{"type":"Metaspace","replacement":"▁",
                                    "prepend_scheme":"first","split":true},)"),
                  "t5");
}

TEST(GgufTokenizer, SentencePieceBpeHasScoresByRank) {
  const std::string model =
      R"({"type":"BPE","byte_fallback":true,"fuse_unk":true,"unk_token":"<unk>",
          "vocab":{"<unk>":0,"<s>":1,"<tool>":2,"▁":3,"a":4,"b":5,"▁a":6,"ab":7,"▁ab":8,"<0x78>":9},
          "merges":["▁ a","a b","▁ ab","▁a b"]})";
  expect_same_ids(file_of(model, R"("normalizer":{"type":"Replace","pattern":{"String":" "},
                                    "content":"▁"},)"),
                  "llama");
}

// The model names the unknown token; without its id in the file, readers would use BERT's id 100.
TEST(GgufTokenizer, WordPieceKeepsItsUnknownToken) {
  const std::string model =
      R"({"type":"WordPiece","unk_token":"<unk>","continuing_subword_prefix":"##",
          "max_input_chars_per_word":100,"vocab":{"<unk>":0,"<s>":1,"<tool>":2,"a":3,"##b":4,
          "ab":5,"b":6,"##a":7,"!":8}})";
  expect_same_ids(file_of(model, R"("normalizer":{"type":"BertNormalizer","clean_text":true,
                                    "handle_chinese_chars":true,"lowercase":true},
                                    "pre_tokenizer":{"type":"BertPreTokenizer"},)"),
                  "bert");
}

TEST(GgufTokenizer, ErrorsNameAnUnknownPattern) {
  std::string message;
  EXPECT_EQ(kind_of(byte_level("[aeiou]+"), message), ErrorKind::kUnsupported);
  EXPECT_NE(message.find("[aeiou]+"), std::string::npos) << message;
  const std::string lower = R"("normalizer":{"type":"Lowercase"},)";
  EXPECT_EQ(kind_of(file_of(R"({"type":"BPE","vocab":{"a":3},"merges":[]})", lower), message),
            ErrorKind::kUnsupported);
  EXPECT_NE(message.find("Lowercase"), std::string::npos) << message;
}

TEST(GgufTokenizer, RejectsATruncatedFile) {
  std::string message;
  const std::string whole = byte_level("x");
  EXPECT_EQ(kind_of(whole.substr(0, whole.size() / 2), message), ErrorKind::kFormat);
}

// Converts the tokenizer of a folder to GGUF metadata and loads it again.
std::unique_ptr<Tokenizer> written_again(const test::TemporaryFolder& folder, int64_t rows,
                                         const std::string& model) {
  ModelFile file;
  add_gguf_tokenizer(folder.path(), rows, file.metadata);
  EXPECT_EQ(file.metadata.text("tokenizer.ggml.model"), model);
  return make_tokenizer(file);
}

void expect_same_roles(const Tokenizer& written, const Tokenizer& tokenizer) {
  EXPECT_EQ(written.special().bos, tokenizer.special().bos);
  EXPECT_EQ(written.special().eos, tokenizer.special().eos);
  EXPECT_EQ(written.special().unknown, tokenizer.special().unknown);
  EXPECT_EQ(written.special().ends, tokenizer.special().ends);
}

TEST(GgufTokenizer, SentencePieceModelsKeepTheirIds) {
  const Json all = test::read_fixture("tokenizers/sentencepiece.json");
  for (const Json& model : all["models"]) {
    const auto name = model["name"].get<std::string>();
    SCOPED_TRACE(name);
    const test::TemporaryFolder folder;
    folder.write("tokenizer.model", *decode_base64(model["model"].get<std::string>()));
    for (const char* config :
         {R"({})", R"({"add_bos_token":true,"add_eos_token":true})", R"({"add_bos_token":false})",
          R"({"added_tokens_decoder":{"900":{"content":"<tool>","special":false},
              "905":{"content":"<|im_end|>","special":true}},"eos_token":"<|im_end|>"})"}) {
      SCOPED_TRACE(config);
      folder.write("tokenizer_config.json", config);
      const auto tokenizer = load_tokenizer_folder(folder.path());
      const auto written = written_again(folder, std::max(tokenizer->size(), 910),
                                         name.starts_with("unigram") ? "t5" : "llama");
      expect_same_roles(*written, *tokenizer);
      for (const Json& text : all["texts"]) {
        const auto whole = text.get<std::string>() + "<tool>the<|im_end|>";
        EXPECT_EQ(written->encode(whole), tokenizer->encode(whole)) << whole;
        EXPECT_EQ(written->encode(whole, kPlain), tokenizer->encode(whole, kPlain)) << whole;
      }
    }
  }
}

// Except for a word that no merges produce: with the pre-tokenizer "gpt-2", GGUF readers do not
// look up whole words.
TEST(GgufTokenizer, TiktokenRanksKeepTheirIds) {
  const test::TemporaryFolder folder;
  folder.write("gpt2.tiktoken", test::gpt2_ranks());
  folder.write("tokenizer_config.json",
               R"({"added_tokens_decoder":{"50256":{"content":"<|endoftext|>","special":true}},
                   "eos_token":"<|endoftext|>"})");
  const auto tokenizer = load_tokenizer_folder(folder.path());
  const auto written = written_again(folder, 50260, "gpt2");
  expect_same_roles(*written, *tokenizer);
  for (const char* text : {"", "lower low", "lo<|endoftext|>\n", " lllowerer 12 \xE2\x82\xAC"})
    EXPECT_EQ(written->encode(text), tokenizer->encode(text)) << text;
}

TEST(GgufTokenizer, RejectsMalformedModels) {
  for (const char* name : {"tokenizer.model", "x.tiktoken"})
    for (const char* bytes : {"aGVsbG8= 0\n!!! 1\n", "\x0A\xFF", "aGVsbG8= 0\n"}) {
      const test::TemporaryFolder folder;
      folder.write(name, bytes);
      Metadata metadata;
      EXPECT_THROW(add_gguf_tokenizer(folder.path(), kRows, metadata), Error) << name << bytes;
    }
}

TEST(GgufTokenizer, ErrorsNameUnsupportedFormats) {
  for (const std::string name : {"tekken.json", "vocab.json", "vocab.txt"}) {
    const test::TemporaryFolder folder;
    folder.write(name, "{}");
    Metadata metadata;
    try {
      add_gguf_tokenizer(folder.path(), kRows, metadata);
      ADD_FAILURE() << "no error";
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::kUnsupported);
      EXPECT_NE(std::string(error.what()).find(name), std::string::npos) << error.what();
    }
  }
}

TEST(GgufTokenizer, AFolderWithoutATokenizerGivesModelNone) {
  const test::TemporaryFolder folder;
  ModelFile file;
  add_gguf_tokenizer(folder.path(), kRows, file.metadata);
  EXPECT_EQ(make_tokenizer(file)->size(), 0);
}

}  // namespace
}  // namespace veery
