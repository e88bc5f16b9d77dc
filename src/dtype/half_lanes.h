// half_lanes.h: many f32 to f16 or bf16 and back, once for each instruction set; all give the bits
// of half.h.
#pragma once
#include <span>
#include <vector>

#include "dtype/dtype.h"

namespace veery {

/// `type` is kF16 or kBF16; values need not be aligned.
struct HalfConverter {
  /// Returns the index of the first finite number that would become infinite, in.size() if there is
  /// none.
  size_t (*encode)(DType type, std::span<const float> in, std::byte* out);
  void (*decode)(DType type, const std::byte* in, std::span<float> out);
};

/// Those that run on this machine, the widest first.
const std::vector<HalfConverter>& half_converters();

}  // namespace veery
