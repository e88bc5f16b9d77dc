// leaf.h: values that no op computes: weights, what varies between runs, caches, constants.
#pragma once
#include "graph/op.h"

namespace veery {

/// param: a matrix, a vector [1, n] or a stack of matrices [count, rows, columns]. `vectors` > 0:
/// one row that holds so many vectors of one size.
struct ParamAttr {
  int32_t vectors = 0;
};

/// state of a growing cache: keys or values of one layer, in pages.
struct StateAttr {
  bool keys = true;
  int32_t kv_heads = 1;
  int32_t window = 0;  ///< > 0: positions further back may be forgotten
};

namespace op {

/// A weight, by name; its type is the file's; [ParamAttr].
inline constexpr OpDef kParam{.name = "param", .group = OpGroup::kLeaf};
/// What varies between runs, by name (plan/slots.h).
inline constexpr OpDef kSlot{.name = "slot", .group = OpGroup::kLeaf, .leaf_type = DType::kI32};
/// A cache, by name; StateAttr.
inline constexpr OpDef kState{.name = "state", .group = OpGroup::kLeaf};
/// ScaleAttr: every element is the factor.
inline constexpr OpDef kConstant{.name = "constant", .group = OpGroup::kLeaf};

inline constexpr Op kLeaves[] = {kParam, kSlot, kState, kConstant};

}  // namespace op
}  // namespace veery
