// greedy_tokenizer.h: greedy longest-match tokenizer without merges (RWKV World vocabulary).
#pragma once
#include <array>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "text/vocabulary_tokenizer.h"

namespace veery {

/// Repeatedly takes the longest token at the start of the remaining text. Tokens in GGUF use the
/// escapes of Python byte literals ("\n", "\xe2") and need not be UTF-8.
class GreedyTokenizer final : public VocabularyTokenizer {
 public:
  /// Throws kFormat, naming the token, for an invalid escape.
  explicit GreedyTokenizer(const Metadata& metadata);

 protected:
  void encode_plain(std::string_view text, bool starts, std::vector<int32_t>& out,
                    LostBytes& lost) const override;

 private:
  int32_t longest_at(std::string_view text, size_t& length) const;

  std::vector<int32_t> ordered_;        ///< ids of text tokens, sorted by bytes
  std::array<uint32_t, 257> begins_{};  ///< start of the range for each first byte
};

}  // namespace veery
