// Tokenizers and chat templates of folders; SentencePiece and tiktoken files (fixture by
// tools/oracle/sentencepiece_models.py).
#include "text/format/tokenizer_folder.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "base/error.h"
#include "base/utf8.h"
#include "support/models.h"
#include "support/tiktoken_ranks.h"
#include "text/common/base64.h"
#include "text/common/byte_alphabet.h"
#include "text/format/gguf_tokenizer.h"

namespace veery {
namespace {

namespace fs = std::filesystem;
using Ids = std::vector<int32_t>;
constexpr EncodeOptions kPlain{.add_special = false, .parse_special = false};

class TokenizerFolder : public testing::Test {
 protected:
  void SetUp() override {
    const auto* test = testing::UnitTest::GetInstance()->current_test_info();
    folder_ = fs::temp_directory_path() / fmt::format("veery-{}-{}", test->name(), ::getpid());
    fs::create_directories(folder_);
  }
  void TearDown() override { fs::remove_all(folder_); }

  void write(const std::string& name, std::string_view text) {
    std::ofstream(folder_ / name, std::ios::binary) << text;
  }
  std::unique_ptr<Tokenizer> load() { return load_tokenizer_folder(folder_.string()); }

  fs::path folder_;
};

constexpr std::string_view kSmall =
    R"({"added_tokens":[{"id":3,"content":"<s>","special":true},
        {"id":4,"content":"</s>","special":true},{"id":5,"content":"<|im_end|>","special":true}],
        "pre_tokenizer":{"type":"Whitespace"},
        "model":{"type":"WordLevel","unk_token":"?","vocab":{"?":0,"a":1,"b":2}}})";

TEST_F(TokenizerFolder, RolesComeFromNeighbouringFiles) {
  write("tokenizer.json", kSmall);
  EXPECT_EQ(load()->special().bos, -1);
  EXPECT_EQ(load()->special().ends, (Ids{4, 5}));  // found by name
  write("special_tokens_map.json", R"({"bos_token":"a","pad_token":"b"})");
  write("tokenizer_config.json",
        R"({"bos_token":{"content":"<s>","lstrip":false},"eos_token":"</s>","unk_token":null,
            "add_bos_token":true,"more":[{"deep":[1,2]}]})");
  write("generation_config.json", R"({"eos_token_id":[4,2]})");
  const auto tokenizer = load();
  EXPECT_EQ(tokenizer->special().bos, 3);
  EXPECT_EQ(tokenizer->special().eos, 4);
  EXPECT_EQ(tokenizer->special().pad, 2);
  EXPECT_TRUE(tokenizer->special().add_bos);
  EXPECT_EQ(tokenizer->special().ends, (Ids{2, 4}));
  EXPECT_EQ(tokenizer->encode("a <s> b"), (Ids{1, 3, 2}));
  EXPECT_EQ(tokenizer->find("<s>"), 3);
  EXPECT_EQ(tokenizer->size(), 6);
  // The path of a file selects its folder.
  EXPECT_EQ(load_tokenizer_folder((folder_ / "tokenizer.json").string())->special().bos, 3);
}

// Only listed ids, EOS and end tokens that occur in the template end an answer.
TEST_F(TokenizerFolder, OnlyListedEndsAndThoseOfTheTemplateEndAnAnswer) {
  write("tokenizer.json", kSmall);
  write("config.json", R"({"eos_token_id":4})");
  EXPECT_EQ(load()->special().ends, (Ids{4}));
  write("chat_template.jinja", "{% for m in messages %}{{ m.content }}<|im_end|>{% endfor %}");
  EXPECT_EQ(load()->special().ends, (Ids{4, 5}));
  write("config.json", R"({"eos_token_id":null})");
  write("chat_template.jinja", "");
  EXPECT_EQ(load()->special().ends, (Ids{4, 5}));  // none are listed, so found by name
}

TEST_F(TokenizerFolder, IgnoresTruncationAndPaddingOfTheFile) {
  std::string text(kSmall);
  text.insert(1, R"("truncation":{"max_length":2,"strategy":"LongestFirst","direction":"Left",
      "stride":0},"padding":{"strategy":{"Fixed":9},"direction":"Right","pad_to_multiple_of":null,
      "pad_id":0,"pad_type_id":0,"pad_token":"?"},)");
  write("tokenizer.json", text);
  EXPECT_EQ(load()->encode("a b a b a"), (Ids{1, 2, 1, 2, 1}));
  EXPECT_EQ(load()->encode("a b a b b", {.max_tokens = 2}), (Ids{2, 2}));
}

// Ids and flags as in transformers 5.24.
TEST_F(TokenizerFolder, TokensOfTokenizerConfigAreAdded) {
  write("tokenizer.json", kSmall);
  write("tokenizer_config.json",
        R"({"added_tokens_decoder":{"3":{"content":"<s>","special":true,"rstrip":true},
            "9":{"content":"<x>","special":true},"20":{"content":"<y>","special":false}},
            "pad_token":"<pad>","image_token":"<img>","extra_special_tokens":["<e>","<x>"]})");
  const auto tokenizer = load();
  EXPECT_EQ(tokenizer->find("<x>"), 6);
  EXPECT_EQ(tokenizer->find("<y>"), 7);
  EXPECT_EQ(tokenizer->find("<pad>"), 8);
  EXPECT_EQ(tokenizer->find("<img>"), 9);
  EXPECT_EQ(tokenizer->find("<e>"), 10);
  EXPECT_EQ(tokenizer->size(), 11);
  EXPECT_EQ(tokenizer->encode("a<x><y>b<e>"), (Ids{1, 6, 7, 2, 10}));
  EXPECT_EQ(tokenizer->decode({1, 6, 7, 2}), "a <y> b");
}

// As in tokenizers 0.23.3: a token whose whitespace was absorbed by another token does not match.
TEST_F(TokenizerFolder, WhitespaceTokensStripByTheirOwnFlags) {
  const auto with = [](const char* flags) {
    std::string text(kSmall);
    const std::string added = std::string(R"([{"id":3,"content":" ",)") + flags + "},";
    return text.replace(text.find('['), 1, added);
  };
  write("tokenizer.json", with(R"("special":true,"lstrip":true,"rstrip":true)"));
  EXPECT_EQ(load()->encode("a   b "), (Ids{1, 3, 2, 3}));
  write("tokenizer.json", with(R"("special":true,"rstrip":true)"));
  EXPECT_EQ(load()->encode("a   b"), (Ids{1, 3, 3, 3, 2}));
  write("tokenizer.json", with(R"("special":true)"));
  EXPECT_EQ(load()->encode("a   b"), (Ids{1, 3, 3, 3, 2}));
}

TEST_F(TokenizerFolder, ReadsLegacyAddedTokens) {
  write("tokenizer.json", kSmall);
  write("added_tokens.json", R"({"<k>":7,"<j>":6})");
  write("special_tokens_map.json", R"({"additional_special_tokens":["<k>","<l>"]})");
  const auto tokenizer = load();
  EXPECT_EQ(tokenizer->find("<j>"), 6);
  EXPECT_EQ(tokenizer->find("<k>"), 7);
  EXPECT_EQ(tokenizer->find("<l>"), 8);
  EXPECT_EQ(tokenizer->encode("<j><k><l>"), (Ids{6, 7, 8}));
  EXPECT_EQ(tokenizer->encode("<k>", kPlain), (Ids{0, 0, 0}));
}

TEST_F(TokenizerFolder, ReadsRwkvVocabularies) {
  constexpr const char* kName = "rwkv_vocab_v1.txt";
  write(kName, "1 'a' 1\n2 \"'\" 1\n3 '\\n\\n' 2\r\n5 '\\xe9' 2\n6 b'\\xe9' 1\n7 'a b' 3\n");
  write("config.json", R"({"eos_token_id":0})");
  const auto tokenizer = load();
  EXPECT_EQ(tokenizer->size(), 8);
  EXPECT_EQ(tokenizer->encode("a ba'\n\n\u00e9\xe9", kPlain), (Ids{7, 1, 2, 3, 5, 6}));
  EXPECT_EQ(tokenizer->special().eos, 0);
  ModelFile written;
  add_gguf_tokenizer(folder_.string(), 9, written.metadata);
  const auto read = make_tokenizer(written);
  EXPECT_EQ(read->size(), 9);
  EXPECT_EQ(read->special().eos, 0);
  for (int32_t id = 0; id < 8; ++id) EXPECT_EQ(read->piece(id), tokenizer->piece(id)) << id;
  for (const char* line : {"1 'a' 2", "1 'a 1", "0 'a' 1", "x 'a' 1", "1 '\\q' 1", "1 b'\\u0041' 1",
                           "99999999 'a' 1", "1 'a'", "1 '\\x4' 1"}) {
    write(kName, std::string("1 'a' 1\n") + line + "\n");
    try {
      load();
      ADD_FAILURE() << line;
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::kFormat);
      EXPECT_NE(std::string(error.what()).find("line 2"), std::string::npos) << error.what();
    }
  }
}

TEST_F(TokenizerFolder, RejectsAFolderWithoutATokenizer) {
  try {
    load();
    ADD_FAILURE() << "no error";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kNotFound);
  }
}

TEST_F(TokenizerFolder, ChatTemplates) {
  EXPECT_EQ(load_chat_templates(folder_.string()).standard, "");
  write("tokenizer_config.json", R"({"chat_template":"one"})");
  EXPECT_EQ(load_chat_templates(folder_.string()).standard, "one");
  write("tokenizer_config.json",
        R"({"chat_template":[{"name":"default","template":"two"},
                             {"name":"tool_use","template":"tools"}]})");
  EXPECT_EQ(load_chat_templates(folder_.string()).standard, "two");
  const auto named = load_chat_templates(folder_.string()).named;
  ASSERT_EQ(named.size(), 1U);
  EXPECT_EQ(named[0], (std::pair<std::string, std::string>("tool_use", "tools")));
  write("chat_template.jinja", "three");
  EXPECT_EQ(load_chat_templates(folder_.string()).standard, "three");
}

TEST_F(TokenizerFolder, SentencePieceModelsMatchRecordedIds) {
  const Json all = test::read_fixture("tokenizers/sentencepiece.json");
  for (const Json& model : all["models"]) {
    SCOPED_TRACE(model["name"].get<std::string>());
    write("tokenizer.model", *decode_base64(model["model"].get<std::string>()));
    const auto tokenizer = load();
    for (size_t i = 0; i < all["texts"].size(); ++i) {
      const auto text = all["texts"][i].get<std::string>();
      EXPECT_EQ(tokenizer->encode(text, kPlain), model["ids"][i].get<Ids>()) << text;
    }
    EXPECT_EQ(tokenizer->special().bos, 1);
    EXPECT_EQ(tokenizer->special().eos, 2);
  }
}

TEST_F(TokenizerFolder, NeighbouringFilesCanDisableBos) {
  const Json all = test::read_fixture("tokenizers/sentencepiece.json");
  for (const Json& model : all["models"]) {
    write("tokenizer.model", *decode_base64(model["model"].get<std::string>()));
    for (const bool wanted : {true, false}) {
      write("tokenizer_config.json", fmt::format(R"({{"add_bos_token":{}}})", wanted));
      EXPECT_EQ(load()->encode("a").front() == 1, wanted) << model["name"];
    }
  }
}

TEST_F(TokenizerFolder, RejectsMalformedSentencePieceModels) {
  const Json all = test::read_fixture("tokenizers/sentencepiece.json");
  const std::string whole = *decode_base64(all["models"][0]["model"].get<std::string>());
  int refused = 0;
  for (size_t size = 0; size < whole.size(); size += 7) {
    write("tokenizer.model", whole.substr(0, size));
    try {
      load();
    } catch (const Error& error) {
      EXPECT_NE(error.kind(), ErrorKind::kBug);
      ++refused;
    }
  }
  EXPECT_GT(refused, 100);
}

TEST_F(TokenizerFolder, TiktokenRanks) {
  write("model.tiktoken", test::gpt2_ranks());
  write("tokenizer_config.json",
        R"({"added_tokens_decoder":{"50256":{"content":"<|endoftext|>","special":true}},
            "eos_token":"<|endoftext|>"})");
  const auto tokenizer = load();
  EXPECT_EQ(tokenizer->encode("lower low"), (Ids{261, 260}));
  EXPECT_EQ(tokenizer->encode("hello"), Ids{262});  // although no two tokens merge to it
  EXPECT_EQ(tokenizer->encode("lo<|endoftext|>\n"), (Ids{256, 50256, '\n'}));
  EXPECT_EQ(tokenizer->special().eos, 50256);
  EXPECT_EQ(tokenizer->decode({261, 260, 50256}), "lower low");
  write("model.tiktoken", "aGVsbG8= 0\n");
  EXPECT_THROW(load(), Error);  // unknown number of ranks
  write("model.tiktoken", "aGVsbG8= 0\n!!! 1\n");
  EXPECT_THROW(load(), Error);
}

}  // namespace
}  // namespace veery
