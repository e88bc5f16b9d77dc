// leaf_attr.h: the parameters of leaves that have an element type of their own (graph/ops/leaf.h).
#pragma once
#include <cstdint>

#include "dtype/dtype.h"

namespace veery {

/// How a decode step of a chain changes an input for the next step, without the host.
enum class Advance : uint8_t {
  kNone,      ///< unknown: a plan with this input cannot be chained
  kSame,      ///< keeps its value
  kToken,     ///< becomes the token that the step has chosen
  kPosition,  ///< grows by one
};

/// A value that varies between runs.
struct InputAttr {
  DType dtype = DType::kF32;  ///< kF32, kI32, kF16, kBF16 or kU8
  Advance advance = Advance::kNone;
};

/// Parameters of variable.
struct VariableAttr {
  DType dtype = DType::kF32;  ///< as for InputAttr
};

}  // namespace veery
