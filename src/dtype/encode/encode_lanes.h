// encode_lanes.h: the block encoders, compiled for each instruction set; all give the same bits.
#pragma once
#include <cstddef>
#include <span>
#include <vector>

#include "dtype/dtype.h"

namespace veery {

/// Larger magnitudes, which no f16 scale can reach, are rejected before the search, so that squares
/// stay finite in it.
constexpr float kLargestEncoded = 1e12F;

/// Input and output of a block encoder; `in` holds whole blocks.
struct EncodeJob {
  std::span<const float> in;
  const float* weights;  ///< error weights of one row, which repeat for each row; nullptr: all 1
  size_t row;            ///< elements per row
  std::byte* out;
};

/// Returns the first element of the first block that has a NaN, an element beyond kLargestEncoded,
/// or a scale that does not fit its type; in.size() if there is none.
using LaneEncoder = size_t (*)(DType type, const EncodeJob& job);
/// The encoders that this machine can run, the widest vectors first.
using LaneEncoders = std::vector<LaneEncoder>;

/// Returns the encoders of `type`. Throws kUnsupported if the type is not encoded in blocks.
const LaneEncoders& lane_encoders(DType type);

// The encoders of one family of types each; each family has its own file.
const LaneEncoders& small_encoders();
const LaneEncoders& super_encoders();
const LaneEncoders& book_encoders();
const LaneEncoders& ternary_encoders();
const LaneEncoders& grid_encoders();

}  // namespace veery
