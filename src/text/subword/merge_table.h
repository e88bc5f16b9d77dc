// merge_table.h: ranked merges of BPE.
#pragma once
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "text/common/string_table.h"
#include "text/subword/merge.h"
#include "text/vocabulary.h"

namespace veery {

/// A merge as written in the file.
struct MergeText {
  std::string_view left, right;
};

struct MergeRules {
  bool strict = false;       ///< all three tokens must be in the vocabulary
  bool last_counts = false;  ///< of duplicate merges the last applies instead of the first
  size_t prefix = 0;         ///< length of the right token's prefix that the merged token omits
};

/// Splits each "left right" at its first space after the first character (a token may begin with
/// one). Throws kFormat, naming `what` and the index, for an entry without two parts.
std::vector<MergeText> cut_merges(std::span<const std::string_view> merges, std::string_view what);

/// Hash map from (left id, right id) to the rank and id of the merged token.
class MergeTable {
 public:
  /// Merges with a token that is not in the vocabulary are skipped, or rejected with kFormat if
  /// `rules.strict`.
  MergeTable(std::span<const MergeText> merges, const Vocabulary& vocabulary,
             const MergeRules& rules = {});

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
  void insert(int32_t left, int32_t right, Join join, bool last_counts);

  std::vector<Slot> slots_;
  size_t mask_ = 0;
};

}  // namespace veery
