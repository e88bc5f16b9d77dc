// encode_lanes.h: the encoders of blocks, once for each instruction set; all give the same bits.
#pragma once
#include <cstddef>
#include <span>
#include <vector>

#include "dtype/dtype.h"

namespace veery {

/// Encodes whole blocks of finite floats. `weights` (null: all 1) are those of a row of `row`
/// elements, which repeat. Returns the first element of the first block whose scale does not fit
/// its type, in.size() if there is none.
using LaneEncoder = size_t (*)(DType type, std::span<const float> in, const float* weights,
                               size_t row, std::byte* out);

/// Those that run on this machine, fastest first.
const std::vector<LaneEncoder>& lane_encoders();

}  // namespace veery
