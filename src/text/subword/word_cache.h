// word_cache.h: cache of the ids of words within one text.
#pragma once
#include <algorithm>
#include <bit>
#include <cstdint>
#include <cstring>
#include <span>
#include <string_view>
#include <vector>

#include "text/common/string_table.h"

namespace veery {

/// Direct-mapped cache with one cache line per entry. A new word replaces an older one with the
/// same slot. Long words are not cached.
class WordCache {
 public:
  /// `bytes`: length of the text; short texts get no cache.
  explicit WordCache(size_t bytes) {
    if (bytes < kLeastText) return;
    slots_.resize(std::bit_ceil(std::clamp(bytes / 16, size_t{64}, kMostSlots)));
  }

  bool takes(std::string_view word) const { return !slots_.empty() && word.size() <= kLongest; }

  /// Appends the ids of `word` if they are cached. Requires takes(word).
  bool find(std::string_view word, uint64_t hash, std::vector<int32_t>& out) const {
    const Slot& slot = slot_of(hash);
    if (slot.hash != hash || slot.length != word.size() ||
        std::memcmp(slot.text, word.data(), word.size()) != 0)
      return false;
    out.insert(out.end(), slot.ids, slot.ids + slot.count);
    return true;
  }

  void insert(std::string_view word, uint64_t hash, std::span<const int32_t> ids) {
    if (ids.size() > kMostIds) return;
    Slot& slot = slots_[hash & (slots_.size() - 1)];
    slot.hash = hash;
    slot.length = static_cast<uint8_t>(word.size());
    slot.count = static_cast<uint8_t>(ids.size());
    std::copy(word.begin(), word.end(), slot.text);
    std::copy(ids.begin(), ids.end(), slot.ids);
  }

 private:
  static constexpr size_t kLeastText = 4096, kMostSlots = size_t{1} << 15, kLongest = 30,
                          kMostIds = 6;
  struct alignas(64) Slot {
    uint64_t hash = 0;
    int32_t ids[kMostIds];
    uint8_t length = 0, count = 0;
    char text[kLongest];
  };
  static_assert(sizeof(Slot) == 64);
  const Slot& slot_of(uint64_t hash) const { return slots_[hash & (slots_.size() - 1)]; }

  std::vector<Slot> slots_;
};

}  // namespace veery
