// sentencepiece_bpe.h: score-based BPE of SentencePiece (Llama 2, Gemma, Phi-3).
#pragma once
#include <array>
#include <bitset>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "text/common/charsmap.h"
#include "text/subword/merge.h"
#include "text/vocabulary_tokenizer.h"

namespace veery {

/// Defaults for missing metadata.
inline constexpr SpecialDefaults kSentencePieceDefaults{
    .bos = 1, .eos = 2, .unknown = 0, .add_bos = true};

/// Merges the neighbours whose concatenation is the token with the highest score. Characters
/// without a token become byte tokens ("<0xE2>"), or the unknown token if there are no byte tokens.
class SentencePieceBpe final : public VocabularyTokenizer {
 public:
  /// Throws kFormat if tokenizer.ggml.scores is missing.
  explicit SentencePieceBpe(const Metadata& metadata);

 protected:
  void encode_plain(std::string_view text, bool starts, std::vector<int32_t>& out,
                    LostBytes& lost) const override;

 private:
  struct Scratch {
    std::vector<TextSymbol> symbols;
    JoinScratch join;
    size_t after_unknown = SIZE_MAX;  // number of ids after the last unknown token was appended
    size_t lost = 0;                  // bytes that no token represents
  };
  void find_word_boundaries();
  std::string normalized(std::string_view text, bool starts) const;
  void encode_word(std::string_view word, Scratch& scratch, std::vector<int32_t>& out) const;
  Join join_of(std::string_view word, const TextSymbol& left, const TextSymbol& right) const;
  int32_t text_token(std::string_view bytes) const;

  bool add_prefix_, remove_extra_;
  std::array<int32_t, 256> byte_ids_{};
  std::optional<Charsmap> map_;  // character map that is applied first
  std::bitset<256> binds_mark_;  // bytes b such that some token contains b followed by a space mark
};

}  // namespace veery
