// half_lanes.h: vectorised conversion between f32 and f16 or bf16 for each instruction set; gives
// the bits of half.h.
#pragma once
#include <span>
#include <vector>

#include "dtype/dtype.h"

namespace veery {

/// A converter of one instruction set. `type` is kF16 or kBF16; values need not be aligned.
struct HalfConverter {
  /// Returns the index of the first finite number that would become infinite, or in.size().
  size_t (*encode)(DType type, std::span<const float> in, std::byte* out);
  void (*decode)(DType type, const std::byte* in, std::span<float> out);
};

/// Returns the converters that this machine can run, the widest vectors first.
const std::vector<HalfConverter>& half_converters();

}  // namespace veery
