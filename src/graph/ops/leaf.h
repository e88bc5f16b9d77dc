// leaf.h: values that no op computes: weights, what varies between runs, caches, constants.
#pragma once
#include "graph/op.h"

namespace veery {

/// param: a matrix, a vector [1, n] or a stack of matrices [count, rows, columns]. `vectors` > 0:
/// one row that holds so many vectors of one size. `plain`: a matrix that is read element by
/// element, not multiplied: rows of f32, whatever the file holds.
struct ParamAttr {
  int32_t vectors = 0;
  bool plain = false;
};

/// What a sequence keeps from run to run. kKeys, kValues: one row a position, in pages, of one
/// layer. kBlock: a matrix of f32 that stands for all positions so far, as recurrent layers have
/// it; zeros before the first one.
enum class StateKind : uint8_t { kKeys, kValues, kBlock };

struct StateAttr {
  StateKind kind = StateKind::kKeys;
  int32_t kv_heads = 1;  ///< of pages
  int32_t window = 0;    ///< of pages; > 0: positions further back may be forgotten
  /// Of pages; > 0: so many positions beside those of the sequence, which an encoder writes and
  /// Mask::kSource sees.
  int32_t source = 0;
};

/// What a decode step of a chain does to an input, so that the next step needs no host.
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

namespace op {

/// A weight, by name; its type is the file's; [ParamAttr].
inline constexpr OpDef kParam{.name = "param", .group = OpGroup::kLeaf};
/// A value that each run is given, by name (plan/run_block.h); InputAttr.
inline constexpr OpDef kInput{.name = "input", .group = OpGroup::kLeaf};
/// What a sequence keeps, by name; StateAttr.
inline constexpr OpDef kState{.name = "state", .group = OpGroup::kLeaf};
/// ScaleAttr: every element is the factor.
inline constexpr OpDef kConstant{.name = "constant", .group = OpGroup::kLeaf};

inline constexpr Op kLeaves[] = {kParam, kInput, kState, kConstant};

}  // namespace op
}  // namespace veery
