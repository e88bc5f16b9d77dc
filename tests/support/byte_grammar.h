// byte_grammar.h: compiles grammars over a byte vocabulary, checks texts against them, and
// generates random texts.
#pragma once
#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/random.h"
#include "support/vocabularies.h"
#include "text/grammar/grammar.h"

namespace veery::test {

/// Grammars over a vocabulary in which tokens 0 to 255 are bytes and 257 ends the answer.
class ByteGrammars {
 public:
  static constexpr int32_t kEnd = 257, kVocabulary = 258;

  ByteGrammars() {
    VocabularyBuilder builder;
    builder.add_bytes_of_alphabet();
    for (const char* token : {"<s>", "</s>"}) builder.add(token, 3);
    ModelFile file = builder.file("gpt2");
    file.metadata.set("tokenizer.ggml.bos_token_id", uint64_t{256});
    file.metadata.set("tokenizer.ggml.eos_token_id", uint64_t{kEnd});
    tokenizer_ = make_tokenizer(file);
    compiler_.emplace(*tokenizer_, kVocabulary);
  }
  GrammarCompiler& compiler() { return *compiler_; }
  std::shared_ptr<const Grammar> schema(std::string_view text) {
    return compiler_->json_schema(parse_json(text, "schema"));
  }

 private:
  std::unique_ptr<Tokenizer> tokenizer_;
  std::optional<GrammarCompiler> compiler_;
};

/// Returns the tokens that the grammar allows next.
inline std::vector<int32_t> next_tokens(GrammarState& state) {
  std::vector<uint32_t> bits((ByteGrammars::kVocabulary + 31) / 32);
  const bool some = state.mask(bits);
  std::vector<int32_t> tokens;
  for (int32_t id = 0; id < ByteGrammars::kVocabulary; ++id)
    if (!some || (bits[static_cast<size_t>(id / 32)] >> (id % 32) & 1) != 0) tokens.push_back(id);
  return tokens;
}

/// Returns whether a text is a complete answer of the grammar.
inline bool takes(const std::shared_ptr<const Grammar>& grammar, std::string_view text) {
  GrammarState state(grammar);
  for (const char byte : text)
    if (!state.takes(static_cast<unsigned char>(byte))) return false;
  return std::ranges::count(next_tokens(state), ByteGrammars::kEnd) > 0;
}

/// Generates an answer of random tokens that starts with `begun`; closing tokens are more likely.
/// Returns nullopt if it becomes longer than `most`, and "" with `stuck` set if no token is
/// allowed.
inline std::optional<std::string> random_text(const std::shared_ptr<const Grammar>& grammar,
                                              Random& random, bool& stuck, int most = 2000,
                                              std::string_view begun = {}) {
  GrammarState state(grammar);
  std::string text(begun);
  for (const char byte : begun) state.accept(static_cast<unsigned char>(byte));
  stuck = false;
  for (int i = 0; i < most; ++i) {
    std::vector<int32_t> ids = next_tokens(state);
    const bool may_end = !ids.empty() && ids.back() == ByteGrammars::kEnd;
    if (may_end && (ids.size() == 1 || random.next() % 3 == 0)) return text;
    if (may_end) ids.pop_back();
    if (ids.empty()) {
      stuck = true;
      return "";
    }
    int32_t id = ids[random.next() % ids.size()];
    if (random.next() % 3 == 0)
      for (const char closing : {'"', '}', ']', '<', '/'})
        if (std::ranges::count(ids, closing) > 0) {
          id = closing;
          break;
        }
    text += static_cast<char>(id);
    state.accept(id);
  }
  return {};
}

}  // namespace veery::test
