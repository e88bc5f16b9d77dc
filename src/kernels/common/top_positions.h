// top_positions.h: the positions of the largest scores, out of any number of them, in bounded
// memory.
#pragma once
#include <cstdint>
#include <span>

namespace veery {

/// Keeps the `most` positions with the largest scores, of equal ones the lowest: what is kept does
/// not depend on the order in which they come. Works on memory of its caller.
class TopPositions {
 public:
  /// Entries that the memory has.
  static constexpr int64_t entries(int64_t most) { return 2 * most; }

  TopPositions(uint64_t* memory, int64_t most) : memory_(memory), most_(most) {}

  void add(float score, int32_t position) {
    if (count_ == entries(most_)) shrink();
    memory_[count_++] = entry(score, position);
  }
  /// What another one keeps.
  void add(std::span<const uint64_t> entries);
  /// The entries that are kept, in no order.
  std::span<const uint64_t> kept();
  /// Writes the positions that are kept, ascending, and -1 behind them, `most` in all.
  void write(int32_t* positions);

 private:
  // Larger ones are better: the bits of the score in an order of unsigned numbers, then how low the
  // position is.
  static uint64_t entry(float score, int32_t position) {
    const auto bits = __builtin_bit_cast(uint32_t, score + 0.0F);  // one zero, not two
    const uint32_t order = bits >> 31 != 0 ? ~bits : bits | 0x80000000U;
    return uint64_t{order} << 32 | ~static_cast<uint32_t>(position);
  }
  void shrink();

  uint64_t* memory_;
  int64_t most_;
  int64_t count_ = 0;
};

}  // namespace veery
