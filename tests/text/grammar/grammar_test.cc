// Grammars that cannot end, that no token can begin, or that take too many steps.
#include "text/grammar/grammar.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "support/byte_grammar.h"
#include "text/common/byte_alphabet.h"

namespace veery {
namespace {

using test::VocabularyBuilder;

class Grammars : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!GrammarCompiler::available()) GTEST_SKIP() << "built without xgrammar";
    grammars_.emplace();
  }
  std::shared_ptr<const Grammar> ebnf(const std::string& text) {
    return grammars_->compiler().ebnf(text);
  }
  std::optional<test::ByteGrammars> grammars_;
};

constexpr const char* kAmbiguous = "root ::= s\ns ::= s s | [a-z ] | \"\"";

TEST_F(Grammars, ErrorsNameARuleThatDerivesNoText) {
  for (const auto& [text, part] : std::initializer_list<std::pair<const char*, const char*>>{
           {"root ::= \"a\" root", "'root'"},
           {"root ::= \"a\" | b\nb ::= b \"b\" | c\nc ::= b", "'b'"},
           {"root ::= \"a\" | b{2,3}\nb ::= \"b\" b", "'b'"},
           {"root ::= nowhere", "nowhere"},
           {"other ::= \"a\"", "root"}})
    try {
      ebnf(text);
      ADD_FAILURE() << text;
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::kInput) << text;
      EXPECT_NE(std::string(error.what()).find(part), std::string::npos) << error.what();
    }
}

TEST_F(Grammars, AcceptsRecursionThatEnds) {
  EXPECT_TRUE(test::takes(ebnf("root ::= root \"a\" | \"b\""), "baa"));
  EXPECT_TRUE(test::takes(ebnf("root ::= \"(\" root \")\" | \"\""), "(())"));
  EXPECT_TRUE(test::takes(ebnf("root ::= \"a\" | \"b\" unused{0}\nunused ::= \"c\" unused"), "b"));
  EXPECT_FALSE(test::takes(ebnf("root ::= \"(\" root \")\" | \"\""), "(()"));
}

TEST_F(Grammars, AmbiguousGrammarsFail) {
  GrammarState state(ebnf(kAmbiguous));
  const auto write = [&] {
    for (int i = 0; i < 5000; ++i) {
      test::next_tokens(state);
      state.accept('a');
    }
  };
  try {
    write();
    ADD_FAILURE() << "it took 5000 tokens";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kLimit) << error.what();
  }
}

TEST_F(Grammars, LongAnswersOfPlainGrammarsAreNotLimited) {
  GrammarState state(grammars_->schema(R"({"type": "array", "items": {"type": "string"}})"));
  std::string text = "[";
  for (int i = 0; i < 400; ++i) text += (i > 0 ? ", \"" : "\"") + std::string(20, 'x') + "\"";
  for (const char byte : text) {
    test::next_tokens(state);
    state.accept(static_cast<unsigned char>(byte));
  }
  EXPECT_FALSE(state.over());
}

TEST_F(Grammars, RejectsGrammarsThatNoTokenCanBegin) {
  VocabularyBuilder builder;
  for (const char* token : {"a", "b", "</s>"}) builder.add(token, token[0] == '<' ? 3 : 1);
  ModelFile file = builder.file("gpt2");
  file.metadata.set("tokenizer.ggml.eos_token_id", uint64_t{2});
  const auto tokenizer = make_tokenizer(file);
  GrammarCompiler compiler(*tokenizer, 3);
  EXPECT_THROW(compiler.ebnf("root ::= \"c\""), Error);
  GrammarState state(compiler.ebnf("root ::= \"ac\""));
  std::vector<float> logits(3);
  state.mask(logits);
  state.accept(0);
  try {
    state.mask(logits);
    ADD_FAILURE();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kUnsupported) << error.what();
  }
}

// Mask computation does not try ordinary text tokens where any text may follow.
TEST_F(Grammars, MasksOfLongTokensEqualThoseOfTheirBytes) {
  VocabularyBuilder builder;
  builder.add_bytes_of_alphabet();
  const int32_t end = builder.add("</s>", 3);
  const std::string texts[] = {"ab",   "abcd",    "a b c d e f",  "äöü",  "日本語テキスト",
                               "a<b",  "ab\"",    "\"}",          "a\\n", "\xc3",
                               "ab\n", "abc\xe6", "\xc3\xa4\xc3", "😀😀😀",  std::string(40, 'x')};
  for (const std::string& text : texts) builder.add(to_alphabet(text));
  ModelFile file = builder.file("gpt2");
  file.metadata.set("tokenizer.ggml.eos_token_id", uint64_t{256});
  const auto tokenizer = make_tokenizer(file);
  GrammarCompiler compiler(*tokenizer, tokenizer->size());
  for (const char* schema :
       {R"({"type": "string", "maxLength": 12})",
        R"({"type": "string", "minLength": 3, "maxLength": 70})",
        R"({"type": "string", "pattern": "^[a-zä ]{0,9}$"})", R"({"type": "string"})"}) {
    const auto grammar = compiler.json_schema(parse_json(schema, "schema"));
    for (const std::string begun :
         {"\"", "\"a", "\"xäx", "\"abcdefg", "\"\\", "\"日本語日本語日本語"}) {
      GrammarState state(grammar);
      bool possible = true;
      for (const char byte : begun)
        possible = possible && state.takes(static_cast<unsigned char>(byte));
      if (!possible) continue;
      std::vector<uint32_t> bits((static_cast<size_t>(tokenizer->size()) + 31) / 32);
      ASSERT_TRUE(state.mask(bits));
      for (size_t t = 0; t < std::size(texts); ++t) {
        const auto id = static_cast<size_t>(end) + 1 + t;
        int32_t taken = 0;
        bool all = true;
        for (const char byte : texts[t]) {
          all = all && state.takes(static_cast<unsigned char>(byte));
          taken += all ? 1 : 0;
        }
        state.take_back(taken);
        EXPECT_EQ((bits[id / 32] >> (id % 32) & 1) != 0, all) << schema << begun << texts[t];
      }
    }
  }
}

}  // namespace
}  // namespace veery
