// GGUF tokenizers written as Hugging Face files give the same ids when they are read again.
#include "text/format/tokenizer_json_write.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "base/error.h"
#include "base/random.h"
#include "support/models.h"
#include "support/temporary_folder.h"
#include "support/vocabularies.h"
#include "text/common/base64.h"
#include "text/format/gguf_tokenizer.h"
#include "text/format/tokenizer_folder.h"
#include "text/split/pre_tokenizer.h"

namespace veery {
namespace {

using test::VocabularyBuilder;

std::unique_ptr<Tokenizer> written_again(const ModelFile& file, const Tokenizer& tokenizer) {
  const test::TemporaryFolder folder;
  folder.write("tokenizer.json", tokenizer_json(file, tokenizer));
  folder.write("tokenizer_config.json", dump_json(tokenizer_config(file, tokenizer)));
  return load_tokenizer_folder(folder.path());
}

std::vector<std::string> hard_texts() {
  std::vector<std::string> texts;
  const Json fixture = test::read_fixture("tokenizers/sentencepiece.json");
  for (const Json& text : fixture["texts"]) texts.push_back(text.string());
  for (const char* text :
       {"", " ", "  a   b  ", "It's 12345 o'clock,\r\n\n  isn't it?\t\t<s>lower</s> lower<tool> x",
        "caf\xC3\xA9 cafe\xCC\x81 \xE6\x97\xA5\xE6\x9C\xAC\xE8\xAA\x9E \xF0\x9F\x99\x82!!",
        "<s><s>  <|im_end|>\n\nlow low", "low\xE2\x96\x81\xE2\x96\x81low\xE2\x96\x81", "     "})
    texts.emplace_back(text);
  return texts;
}

// Returns whether the tokenizers library cannot distinguish marks in the text from spaces.
bool mixes_marks_and_spaces(std::string_view text) {
  const auto has = [&](std::string_view part) { return text.find(part) != text.npos; };
  return text.starts_with("\xE2\x96\x81") || has("\xE2\x96\x81 ") || has(" \xE2\x96\x81");
}

void expect_same(const ModelFile& file, bool with_marks = true) {
  const auto tokenizer = make_tokenizer(file);
  const auto written = written_again(file, *tokenizer);
  for (const std::string& text : hard_texts()) {
    if (!with_marks && mixes_marks_and_spaces(text)) continue;
    EXPECT_EQ(written->encode(text), tokenizer->encode(text)) << text;
    const EncodeOptions plain{.add_special = false};
    EXPECT_EQ(written->encode(text, plain), tokenizer->encode(text, plain)) << text;
    const std::vector<int32_t> ids = tokenizer->encode(text, plain);
    EXPECT_EQ(written->decode(ids), tokenizer->decode(ids)) << text;
  }
  for (int32_t id = 0; id < tokenizer->size(); ++id) {
    const std::string token = tokenizer->token(id);
    if (token.find_first_not_of(' ') == std::string::npos) continue;  // written as marks
    EXPECT_EQ(written->find(token), tokenizer->find(token)) << id;
  }
  EXPECT_EQ(written->special().bos, tokenizer->special().bos);
  EXPECT_EQ(written->special().eos, tokenizer->special().eos);
  EXPECT_EQ(written->special().unknown, tokenizer->special().unknown);
  EXPECT_EQ(written->special().pad, tokenizer->special().pad);
}

void set_roles(ModelFile& file, int32_t bos, int32_t eos, bool add_bos, bool add_eos) {
  file.metadata.set("tokenizer.ggml.bos_token_id", int64_t{bos});
  file.metadata.set("tokenizer.ggml.eos_token_id", int64_t{eos});
  file.metadata.set("tokenizer.ggml.add_bos_token", add_bos);
  file.metadata.set("tokenizer.ggml.add_eos_token", add_eos);
}

TEST(TokenizerJsonWrite, ByteLevelVocabulariesOfAllPatterns) {
  VocabularyBuilder vocabulary;
  vocabulary.add_bytes_of_alphabet();
  vocabulary.join("l", "o");
  vocabulary.join("lo", "w");
  vocabulary.join("\xC4\xA0", "low");
  vocabulary.merge("l", "o");          // a duplicate merge
  vocabulary.merge("low", "missing");  // an unknown token
  vocabulary.join("e", "r");
  vocabulary.join("low", "er");
  vocabulary.join("1", "2");
  vocabulary.join("12", "3");
  vocabulary.join("\xC4\xA0", "\xC4\xA0");
  vocabulary.join("\xC4\x8A", "\xC4\x8A");
  vocabulary.add("\xC4\xA0hello");  // only matches as a whole word
  const int32_t bos = vocabulary.add("<s>", 3), eos = vocabulary.add("</s>", 3);
  vocabulary.add("<|im_end|>", 3);
  vocabulary.add("<tool>", 4);
  vocabulary.add("lower");  // a duplicate token
  vocabulary.add("[PAD300]", 5);
  int written = 0;
  for (const PreTokenizerInfo& pre : all_pre_tokenizers()) {
    SCOPED_TRACE(pre.name);
    ModelFile file = vocabulary.file("gpt2", std::string(pre.name));
    set_roles(file, bos, eos, written % 2 == 0, written % 3 == 0);
    if (pre.plain_bytes) {
      EXPECT_THROW(written_again(file, *make_tokenizer(file)), Error);
      continue;
    }
    expect_same(file);
    ++written;
  }
  EXPECT_GT(written, 70);
}

TEST(TokenizerJsonWrite, MergesOfMarkedText) {
  const std::string mark = "\xE2\x96\x81";
  for (const bool newline_merges : {false, true}) {
    VocabularyBuilder vocabulary;
    vocabulary.add("<pad>", 3);
    const int32_t eos = vocabulary.add("<eos>", 3), bos = vocabulary.add("<s>", 3);
    vocabulary.add("<unk>", 2);
    vocabulary.add_byte_tokens();
    for (const char* letter : {"l", "o", "w", "e", "r", "1", "2", "\n", "a"})
      vocabulary.add(letter);
    vocabulary.add(mark);
    vocabulary.join("l", "o");
    vocabulary.join("lo", "w");
    vocabulary.join(mark, "low");
    vocabulary.join(mark, mark);
    vocabulary.join("e", "r");
    for (const char* run : {"\n\n", "\n\n\n", "\n\n\n\n"}) vocabulary.add(run);
    if (newline_merges) vocabulary.merge("\n", "\n");
    vocabulary.add("<|im_end|>", 3);
    vocabulary.add("<tool>", 4);
    ModelFile file = vocabulary.file("gemma4");
    set_roles(file, bos, eos, true, false);
    expect_same(file);
    const auto tokenizer = make_tokenizer(file);
    const auto written = written_again(file, *tokenizer);
    for (int count = 1; count < 12; ++count) {
      const std::string text = "a" + std::string(static_cast<size_t>(count), '\n') + "low";
      // The library splits runs longer than any token differently.
      if (count <= 4) {
        EXPECT_EQ(written->encode(text), tokenizer->encode(text)) << count;
      }
      EXPECT_EQ(written->decode(written->encode(text)), text) << count;
    }
  }
}

TEST(TokenizerJsonWrite, SentencePieceModels) {
  const Json all = test::read_fixture("tokenizers/sentencepiece.json");
  for (const Json& model : all["models"]) {
    SCOPED_TRACE(model["name"].get<std::string>());
    const test::TemporaryFolder folder;
    folder.write("tokenizer.model", *decode_base64(model["model"].get<std::string>()));
    for (const char* config :
         {R"({})", R"({"add_bos_token":true,"add_eos_token":true})",
          R"({"added_tokens_decoder":{"900":{"content":"<tool>","special":false},
              "905":{"content":"<|im_end|>","special":true}},"eos_token":"<|im_end|>"})"}) {
      folder.write("tokenizer_config.json", config);
      ModelFile file;
      add_gguf_tokenizer(folder.path(), 910, file.metadata);
      expect_same(file, file.metadata.text("tokenizer.ggml.model") == "llama");
    }
  }
}

// Scores decide which neighbours merge; runs of spaces and newlines are user-defined tokens.
TEST(TokenizerJsonWrite, DerivesMergesFromScores) {
  for (const bool prefix : {true, false})
    for (uint64_t seed = 1; seed < 20; ++seed) {
      SCOPED_TRACE(seed);
      VocabularyBuilder vocabulary;
      for (const char* token : {"<unk>", "<s>", "</s>"})
        vocabulary.add(token, token[1] == 'u' ? 2 : 3);
      vocabulary.add_byte_tokens();
      std::vector<std::string> words = {"l", "o", "w", "e", "r", "t", "i", "\xE2\x96\x81", "s"};
      Random random(seed);
      for (int i = 0; i < 60; ++i) {
        const std::string left = words[random.next() % words.size()];
        const std::string joined = left + words[random.next() % words.size()];
        const bool marks = joined.find_first_not_of("\xE2\x96\x81") == std::string::npos;
        if (!marks && std::ranges::find(words, joined) == words.end()) words.push_back(joined);
      }
      for (const std::string& word : words)
        vocabulary.add(word, 1, -static_cast<double>(random.next() >> 8));
      if (!prefix)
        for (const char* run : {"  ", "   ", "    "}) vocabulary.add(run, 4, -1000);
      vocabulary.add("\n\n", 4, -1000);
      vocabulary.add("<|im_end|>", 3);
      vocabulary.add("<tool>", 4);
      ModelFile file = vocabulary.file("llama");
      file.metadata.set("tokenizer.ggml.add_space_prefix", prefix);
      file.metadata.set("tokenizer.ggml.remove_extra_whitespaces", prefix && seed % 2 == 0);
      expect_same(file, prefix);
    }
}

TEST(TokenizerJsonWrite, WordPieces) {
  VocabularyBuilder vocabulary;
  for (const char* token : {"[PAD]", "[UNK]", "[CLS]", "[SEP]"}) vocabulary.add(token, 3);
  for (const char* token :
       {"\xE2\x96\x81low", "er", "\xE2\x96\x81it", "s", "\xE2\x96\x81'", "\xE2\x96\x81s",
        "\xE2\x96\x81"
        "12",
        "\xE2\x96\x81"
        "cafe",
        "\xE2\x96\x81!", "345", "\xE2\x96\x81l", "o", "w"})
    vocabulary.add(token);
  ModelFile file = vocabulary.file("bert");
  set_roles(file, 2, 3, true, true);
  file.metadata.set("tokenizer.ggml.unknown_token_id", int64_t{1});
  const auto tokenizer = make_tokenizer(file);
  const auto written = written_again(file, *tokenizer);
  for (const std::string& text : hard_texts())
    EXPECT_EQ(written->encode(text), tokenizer->encode(text)) << text;
}

TEST(TokenizerJsonWrite, KeepsAllTemplates) {
  VocabularyBuilder vocabulary;
  vocabulary.add_bytes_of_alphabet();
  ModelFile file = vocabulary.file("gpt2");
  EXPECT_FALSE(tokenizer_config(file, *make_tokenizer(file)).contains("chat_template"));
  file.metadata.set("tokenizer.chat_template", std::string("{{ 'a\n' }}"));
  EXPECT_EQ(tokenizer_config(file, *make_tokenizer(file))["chat_template"], "{{ 'a\n' }}");
  file.metadata.set_texts("tokenizer.chat_templates", {"tool_use"});
  file.metadata.set("tokenizer.chat_template.tool_use", std::string("{{ b }}"));
  const test::TemporaryFolder folder;
  folder.write("tokenizer_config.json", dump_json(tokenizer_config(file, *make_tokenizer(file))));
  const ChatTemplateSources templates = load_chat_templates(folder.path());
  EXPECT_EQ(templates.standard, "{{ 'a\n' }}");
  const auto named =
      std::ranges::find(templates.named, "tool_use", [](const auto& t) { return t.first; });
  ASSERT_NE(named, templates.named.end());
  EXPECT_EQ(named->second, "{{ b }}");
}

TEST(TokenizerJsonWrite, ErrorsNameUnsupportedTokenizers) {
  VocabularyBuilder vocabulary;
  vocabulary.add_bytes_of_alphabet();
  vocabulary.add("bad \xFF", 3);
  const ModelFile file = vocabulary.file("gpt2");
  try {
    tokenizer_json(file, *make_tokenizer(file));
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kUnsupported);
    EXPECT_NE(std::string(error.what()).find("token 256"), std::string::npos) << error.what();
  }
}

}  // namespace
}  // namespace veery
