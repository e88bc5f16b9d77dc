// top_positions.h: selects the positions of the largest scores of a stream, in bounded memory.
#pragma once
#include <cstdint>
#include <span>

namespace veery {

/// Keeps the `most` positions with the largest scores; the lowest positions win ties, so the result
/// does not depend on the order of add() calls. Uses memory of the caller.
class TopPositions {
 public:
  /// Returns the number of entries that `memory` must have.
  static constexpr int64_t entries(int64_t most) { return 2 * most; }

  TopPositions(uint64_t* memory, int64_t most) : memory_(memory), most_(most) {}

  void add(float score, int32_t position) {
    if (count_ == entries(most_)) shrink();
    memory_[count_++] = entry(score, position);
  }
  /// Adds the entries of another TopPositions.
  void add(std::span<const uint64_t> entries);
  /// Returns the kept entries, unordered.
  std::span<const uint64_t> kept();
  /// Writes the kept positions in ascending order, padded with -1 to `most` elements.
  void write(int32_t* positions);

 private:
  // An entry combines the score, mapped to an unsigned integer of the same order, and the inverted
  // position, so that larger entries are better.
  static uint64_t entry(float score, int32_t position) {
    const auto bits = __builtin_bit_cast(uint32_t, score + 0.0F);  // -0 becomes +0
    const uint32_t order = bits >> 31 != 0 ? ~bits : bits | 0x80000000U;
    return uint64_t{order} << 32 | ~static_cast<uint32_t>(position);
  }
  void shrink();

  uint64_t* memory_;
  int64_t most_;
  int64_t count_ = 0;
};

}  // namespace veery
