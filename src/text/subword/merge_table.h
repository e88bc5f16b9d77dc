// merge_table.h: the ranked merges of byte-pair encoding.
#pragma once
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "text/common/string_table.h"
#include "text/subword/merge.h"
#include "text/vocabulary.h"

namespace veery {

/// As the file writes it.
struct MergeText {
  std::string_view left, right;
};

struct MergeRules {
  bool strict = false;       ///< all three tokens must be in the vocabulary
  bool last_counts = false;  ///< of two equal merges; else the first does
  size_t prefix = 0;         ///< bytes of the right token that the merged one lacks
};

/// Cuts each "left right" at its first space (a token may begin with one). Throws kFormat naming
/// `what` and the place of an entry without two parts.
std::vector<MergeText> cut_merges(std::span<const std::string_view> merges, std::string_view what);

/// (left id, right id) -> rank and id of the merged token.
class MergeTable {
 public:
  /// A merge one of whose three tokens is not in the vocabulary can never lead to a token: it is
  /// left out, or refused with kFormat, naming it, if the rules say so.
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
