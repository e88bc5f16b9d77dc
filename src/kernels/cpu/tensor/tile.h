// tile.h: the registers of one worker that runs an element program, and what fills them.
#pragma once
#include <array>
#include <cstdint>
#include <vector>

#include "kernels/cpu/tensor/element_loops.h"

namespace veery {

/// Elements of a register. Small enough for the registers of a usual program to stay in L1.
inline constexpr int64_t kTile = 512;

/// A program with the loops of its instructions.
struct LoweredProgram {
  LoweredProgram(const ElementProgram& source, Target target);

  struct Transfer {
    bool repeated = false;           ///< all elements are the same one
    bool contiguous = false;         ///< over all dimensions
    TransferLoop convert = nullptr;  ///< of f16 and bf16
  };

  ElementProgram program;
  std::vector<ElementLoop> loops;
  std::vector<Transfer> inputs, outputs;
  /// By instruction: the output whose memory it can write directly; -1: none.
  std::vector<int> writes;
};

/// A range of elements: `count` elements from number `begin` on of the first `dimensions`
/// dimensions, at fixed indices of the others.
struct TileRange {
  int dimensions = 0;
  int64_t begin = 0, count = 0;
  const int64_t* indices = nullptr;  ///< of the other dimensions; null: there are none
};

class Tile {
 public:
  explicit Tile(const LoweredProgram& lowered);
  /// Computes at most kTile elements. The registers hold them until the next call.
  void compute(const TileRange& range);
  const void* reg(int index) const { return at_[static_cast<size_t>(index)]; }

 private:
  std::byte* buffer(int reg) { return buffers_.data() + static_cast<size_t>(reg) * kTile * 8; }
  const void* load(size_t input, const TileRange& range);
  void store(size_t output, const TileRange& range);

  const LoweredProgram& lowered_;
  std::vector<std::byte>& buffers_;  ///< of this thread
  std::array<const void*, kElementRegisters> at_{};
};

}  // namespace veery
