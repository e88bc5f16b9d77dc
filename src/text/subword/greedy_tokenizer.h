// greedy_tokenizer.h: the longest token at each place, without merges (RWKV's World vocabulary).
#pragma once
#include <array>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "text/vocabulary_tokenizer.h"

namespace veery {

/// Text is cut into the longest tokens from its beginning on. Tokens of GGUF are written with the
/// escapes of Python's bytes ("\n", "\xe2"); they need not be UTF-8.
class GreedyTokenizer final : public VocabularyTokenizer {
 public:
  /// Throws kFormat, naming the token, for an escape that is none.
  explicit GreedyTokenizer(const Metadata& metadata);

 protected:
  void encode_plain(std::string_view text, bool starts, std::vector<int32_t>& out,
                    LostBytes& lost) const override;

 private:
  int32_t longest_at(std::string_view text, size_t& length) const;

  std::vector<int32_t> ordered_;        ///< tokens of text by their bytes
  std::array<uint32_t, 257> begins_{};  ///< of those that begin with a byte
};

}  // namespace veery
