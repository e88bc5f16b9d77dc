// vocabulary_tokenizer.h: base class of tokenizers with a vocabulary: special tokens, look-ups,
// decoding.
#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "text/special_tokens.h"
#include "text/tokenizer.h"
#include "text/vocabulary.h"

namespace veery {

/// Returns whether special tokens absorb the spaces after them (Phi-3).
bool strips_after_special(const Metadata& metadata);

class VocabularyTokenizer : public Tokenizer {
 public:
  std::string piece(int32_t id, bool special) const final;
  std::string decode(const std::vector<int32_t>& ids, bool special) const final;
  std::optional<int32_t> find(std::string_view token) const final;
  std::string token(int32_t id) const final;

 protected:
  /// `spaces_are_marks`: the vocabulary writes spaces as U+2581.
  VocabularyTokenizer(const Metadata& metadata, Vocabulary vocabulary,
                      const SpecialDefaults& defaults, bool spaces_are_marks);

  std::vector<int32_t> encode_alone(std::string_view text,
                                    const EncodeOptions& options) const final;

  /// Appends the ids of text without special tokens. `starts`: the text is at the beginning or
  /// follows a special token. Offsets in `lost` refer to `text`.
  virtual void encode_plain(std::string_view text, bool starts, std::vector<int32_t>& out,
                            LostBytes& lost) const = 0;

  /// Returns the byte of a token of the form "<0x0A>", or -1.
  int byte_of(int32_t id) const;

  Vocabulary vocabulary_;

 private:
  void append_piece(int32_t id, bool special, std::string& out) const;

  bool spaces_are_marks_;
  SpecialMatcher matcher_;
};

}  // namespace veery
