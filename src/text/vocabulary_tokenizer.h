// vocabulary_tokenizer.h: what all tokenizers with a vocabulary share: special tokens, look-ups,
// decoding.
#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "text/special_tokens.h"
#include "text/tokenizer.h"
#include "text/vocabulary.h"

namespace veery {

/// Spaces behind special tokens belong to them (Phi-3).
bool strips_after_special(const Metadata& metadata);

class VocabularyTokenizer : public Tokenizer {
 public:
  std::string piece(int32_t id, bool special) const final;
  std::string decode(const std::vector<int32_t>& ids, bool special) const final;
  std::optional<int32_t> find(std::string_view token) const final;
  std::string token(int32_t id) const final;

 protected:
  /// `spaces_are_marks`: the vocabulary writes a space as U+2581.
  VocabularyTokenizer(const Metadata& metadata, Vocabulary vocabulary,
                      const SpecialDefaults& defaults, bool spaces_are_marks);

  std::vector<int32_t> encode_alone(std::string_view text,
                                    const EncodeOptions& options) const final;

  /// Appends the ids of text without special tokens. `starts`: nothing or a special token stands
  /// before it. `lost`: places are those in `text`.
  virtual void encode_plain(std::string_view text, bool starts, std::vector<int32_t>& out,
                            LostBytes& lost) const = 0;

  /// The byte that a token of the form "<0x0A>" stands for, or -1.
  int byte_of(int32_t id) const;

  Vocabulary vocabulary_;

 private:
  void append_piece(int32_t id, bool special, std::string& out) const;

  bool spaces_are_marks_;
  SpecialMatcher matcher_;
};

}  // namespace veery
