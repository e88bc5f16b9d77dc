// encode_lanes.h: the encoders of blocks, once for each instruction set; all give the same bits.
#pragma once
#include <cstddef>
#include <span>
#include <vector>

#include "dtype/dtype.h"

namespace veery {

/// What no f16 scale can reach is refused before the search, so that squares stay finite in it.
constexpr float kLargestEncoded = 1e12F;

/// Whole blocks of floats to encode.
struct EncodeJob {
  std::span<const float> in;
  const float* weights;  ///< of a row, which repeat; null: all 1
  size_t row;            ///< elements of a row
  std::byte* out;
};

/// Returns the first element of the first block with an element that is no number or beyond
/// kLargestEncoded, or with a scale that does not fit its type; in.size() if there is none.
using LaneEncoder = size_t (*)(DType type, const EncodeJob& job);
/// Those that run on this machine, the widest first.
using LaneEncoders = std::vector<LaneEncoder>;

/// Those of `type`; throws kUnsupported where floats are not encoded to it block by block.
const LaneEncoders& lane_encoders(DType type);

// Of one family of types each: a file each.
const LaneEncoders& small_encoders();
const LaneEncoders& super_encoders();
const LaneEncoders& book_encoders();
const LaneEncoders& ternary_encoders();
const LaneEncoders& grid_encoders();

}  // namespace veery
