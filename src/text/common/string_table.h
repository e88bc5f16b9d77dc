// string_table.h: hash function for short strings, and an open-addressing hash index over strings
// stored elsewhere.
#pragma once
#include <bit>
#include <cstdint>
#include <cstring>
#include <string_view>
#include <vector>

namespace veery {

/// Folded 128-bit product: XOR of its halves. Every input bit affects every output bit.
inline uint64_t fold_multiply(uint64_t a, uint64_t b) {
  const auto product = static_cast<unsigned __int128>(a) * b;
  return static_cast<uint64_t>(product) ^ static_cast<uint64_t>(product >> 64);
}

inline uint64_t hash_bytes(std::string_view text) {
  constexpr uint64_t kFirst = 0x9E3779B97F4A7C15U, kSecond = 0xD6E8FEB86659FD93U;
  const char* at = text.data();
  size_t left = text.size();
  uint64_t hash = left * kFirst;
  for (; left > 8; at += 8, left -= 8) {
    uint64_t word;
    std::memcpy(&word, at, 8);
    hash = fold_multiply(hash ^ word, kSecond);
  }
  uint64_t low = 0, high = 0;
  if (left >= 4) {
    uint32_t first, last;
    std::memcpy(&first, at, 4);
    std::memcpy(&last, at + left - 4, 4);
    low = first;
    high = last;
  } else if (left > 0) {
    low = static_cast<unsigned char>(at[0]);
    high = static_cast<uint64_t>(static_cast<unsigned char>(at[left / 2])) << 8 |
           static_cast<unsigned char>(at[left - 1]);
  }
  return fold_multiply(hash ^ (low | high << 32), kSecond);
}

/// Maps hashes to ids. The owner stores the strings and compares them.
class StringTable {
 public:
  /// Reserves space for `count` strings at a load factor of at most two thirds.
  void reserve(size_t count) {
    slots_.assign(std::bit_ceil(count + count / 2 + 2), Slot{});
    mask_ = slots_.size() - 1;
  }

  /// Returns the id with this hash for which `equal(id)` holds, or -1.
  template <typename Equal>
  int32_t find(uint64_t hash, const Equal& equal) const {
    const auto tag = static_cast<uint32_t>(hash >> 32);
    for (size_t at = hash & mask_;; at = (at + 1) & mask_) {
      const Slot& slot = slots_[at];
      if (slot.id < 0 || (slot.tag == tag && equal(slot.id))) return slot.id;
    }
  }

  /// Prefetches the slot that find() reads first for this hash.
  void prefetch(uint64_t hash) const { __builtin_prefetch(&slots_[hash & mask_]); }

  /// Adds `id` unless an equal string exists. Returns whether it was added.
  template <typename Equal>
  bool insert(uint64_t hash, int32_t id, const Equal& equal) {
    const auto tag = static_cast<uint32_t>(hash >> 32);
    size_t at = hash & mask_;
    for (; slots_[at].id >= 0; at = (at + 1) & mask_)
      if (slots_[at].tag == tag && equal(slots_[at].id)) return false;
    slots_[at] = {tag, id};
    return true;
  }

 private:
  struct Slot {
    uint32_t tag = 0;
    int32_t id = -1;
  };
  std::vector<Slot> slots_{Slot{}};
  size_t mask_ = 0;
};

}  // namespace veery
