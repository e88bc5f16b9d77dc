// sentencepiece_bpe.h: byte-pair encoding by scores, as SentencePiece does it (Llama 2, Gemma,
// Phi-3).
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

/// What holds where the metadata says nothing.
inline constexpr SpecialDefaults kSentencePieceDefaults{
    .bos = 1, .eos = 2, .unknown = 0, .add_bos = true};

/// Joins the neighbours whose concatenation is the token with the highest score. Characters that
/// are no token become their bytes ("<0xE2>"), or the unknown token where there are no byte tokens.
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
    size_t after_unknown = SIZE_MAX;  // how many ids there were behind the last unknown token
    size_t lost = 0;                  // bytes that became no token
  };
  void find_word_boundaries();
  std::string normalized(std::string_view text, bool starts) const;
  void encode_word(std::string_view word, Scratch& scratch, std::vector<int32_t>& out) const;
  Join join_of(std::string_view word, const TextSymbol& left, const TextSymbol& right) const;
  int32_t text_token(std::string_view bytes) const;

  bool add_prefix_, remove_extra_;
  std::array<int32_t, 256> byte_ids_{};
  std::optional<Charsmap> map_;  // characters become others first
  std::bitset<256> binds_mark_;  // some token has a space mark after this byte
};

}  // namespace veery
