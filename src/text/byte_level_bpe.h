// byte_level_bpe.h: byte-pair encoding by ranked merges (GPT-2 and its followers; Gemma 4).
#pragma once
#include <array>
#include <cstdint>
#include <string_view>
#include <vector>

#include "text/merge.h"
#include "text/pre_tokenizer.h"
#include "text/vocabulary_tokenizer.h"

namespace veery {

/// (left id, right id) -> rank and id of the merged token.
class MergeTable {
 public:
  /// From tokenizer.ggml.merges ("left right"). A merge one of whose three tokens is not in the
  /// vocabulary can never lead to a token and is left out. Throws kFormat for an entry without a
  /// space.
  MergeTable(const Metadata& metadata, const Vocabulary& vocabulary, bool byte_level);

  Join find(int32_t left, int32_t right) const {
    if (left < 0 || right < 0) return {};
    const uint64_t key = key_of(left, right);
    for (size_t at = slot_of(key);; at = (at + 1) & mask_) {
      const Slot& slot = slots_[at];
      if (slot.key == key) return slot.join;
      if (slot.join.id < 0) return {};
    }
  }

 private:
  struct Slot {
    uint64_t key = 0;
    Join join;
  };
  static uint64_t key_of(int32_t left, int32_t right) {
    return static_cast<uint64_t>(left) << 32 | static_cast<uint32_t>(right);
  }
  size_t slot_of(uint64_t key) const { return fold_multiply(key, 0x9E3779B97F4A7C15U) & mask_; }
  void insert(int32_t left, int32_t right, Join join);

  std::vector<Slot> slots_;
  size_t mask_ = 0;
};

class ByteLevelBpe final : public VocabularyTokenizer {
 public:
  ByteLevelBpe(const Metadata& metadata, const PreTokenizerInfo& info);

 protected:
  void encode_plain(std::string_view text, bool starts, std::vector<int32_t>& out) const override;

 private:
  struct Scratch {
    std::vector<Symbol> symbols;
    JoinScratch join;
  };
  void encode_word(std::string_view word, Scratch& scratch, std::vector<int32_t>& out) const;
  void start_symbols(std::string_view word, std::vector<Symbol>& symbols) const;

  const PreTokenizerInfo& info_;
  PreTokenizer pre_tokenizer_;
  MergeTable merges_;
  std::array<int32_t, 256> byte_ids_{};
};

}  // namespace veery
