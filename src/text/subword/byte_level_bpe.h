// byte_level_bpe.h: byte-level BPE with ranked merges (GPT-2 and its successors; Gemma 4).
#pragma once
#include <array>
#include <cstdint>
#include <string_view>
#include <vector>

#include "text/split/pre_tokenizer.h"
#include "text/subword/merge.h"
#include "text/subword/merge_table.h"
#include "text/vocabulary_tokenizer.h"

namespace veery {

class ByteLevelBpe final : public VocabularyTokenizer {
 public:
  ByteLevelBpe(const Metadata& metadata, const PreTokenizerInfo& info);

 protected:
  void encode_plain(std::string_view text, bool starts, std::vector<int32_t>& out,
                    LostBytes& lost) const override;

 private:
  struct Scratch {
    std::vector<TextSymbol> symbols;
    JoinScratch join;
    const char* text = nullptr;  // the text that is being encoded
    LostBytes lost;

    void lose(const char* byte) { lost.add(1, static_cast<size_t>(byte - text)); }
  };
  void encode_word(std::string_view word, Scratch& scratch, std::vector<int32_t>& out) const;
  void start_symbols(std::string_view word, Scratch& scratch) const;

  const PreTokenizerInfo& info_;
  PreTokenizer pre_tokenizer_;
  MergeTable merges_;
  std::array<int32_t, 256> byte_ids_{};
};

}  // namespace veery
