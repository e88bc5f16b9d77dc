#include "dtype/encode/encode_lanes.h"

#include "base/error.h"

namespace veery {

const LaneEncoders& lane_encoders(DType type) {
  switch (type) {
    case DType::kQ4_0:
    case DType::kQ4_1:
    case DType::kQ5_0:
    case DType::kQ5_1:
    case DType::kQ8_0: return small_encoders();
    case DType::kQ2_K:
    case DType::kQ3_K:
    case DType::kQ4_K:
    case DType::kQ5_K:
    case DType::kQ6_K: return super_encoders();
    case DType::kIQ4_NL:
    case DType::kIQ4_XS:
    case DType::kMXFP4:
    case DType::kNVFP4: return book_encoders();
    case DType::kTQ1_0:
    case DType::kTQ2_0:
    case DType::kQ2_0: return ternary_encoders();
    case DType::kIQ2_XXS:
    case DType::kIQ2_XS:
    case DType::kIQ2_S:
    case DType::kIQ3_XXS:
    case DType::kIQ3_S:
    case DType::kIQ1_S:
    case DType::kIQ1_M: return grid_encoders();
    default:
      throw Error(ErrorKind::kUnsupported, "encode: {} is not a type that floats are encoded to",
                  info(type).name);
  }
}

}  // namespace veery
