// leaf.h: values that no op computes: weights, inputs of a run, caches, constants, variables.
#pragma once
#include "graph/leaf_attr.h"
#include "graph/op.h"

namespace veery {

/// Parameters of param: a matrix, a vector [1, n] or a stack of matrices [count, rows, columns].
/// `vectors` > 0: a row that holds `vectors` vectors of equal size. `plain`: a matrix that is
/// accessed by element instead of multiplied; stored as f32 rows whatever the file's type.
struct ParamAttr {
  int32_t vectors = 0;
  bool plain = false;
};

/// State of a sequence between runs. kKeys, kValues: the KV cache of one layer, one row per
/// position, in pages. kBlock: the f32 state matrix of a recurrent layer; zeros before the first
/// position.
enum class StateKind : uint8_t { kKeys, kValues, kBlock };

struct StateAttr {
  StateKind kind = StateKind::kKeys;
  int32_t kv_heads = 1;  ///< KV cache only
  int32_t window = 0;    ///< KV cache only; > 0: positions outside of the window may be dropped
  /// KV cache only; > 0: size of a cross-attention cache, in positions, which an encoder writes and
  /// Mask::kSource reads.
  int32_t source = 0;
};

namespace op {

/// A weight, by name; its type is that of the file. ParamAttr is optional.
inline constexpr OpDef kParam{.name = "param", .group = OpGroup::kLeaf};
/// A value that each run is given, by name (plan/run_block.h); InputAttr.
inline constexpr OpDef kInput{.name = "input", .group = OpGroup::kLeaf};
/// State of a sequence, by name; StateAttr.
inline constexpr OpDef kState{.name = "state", .group = OpGroup::kLeaf};
/// A constant array, whose elements the graph holds (Node::data).
inline constexpr OpDef kData{.name = "data", .group = OpGroup::kLeaf};
/// An array that keeps its elements between runs, by name (plan/variables.h); VariableAttr. Ops
/// that write it update it in place. Nodes that read the leaf itself must come before such an op in
/// the graph; later ones read the result of the op.
inline constexpr OpDef kVariable{.name = "variable", .group = OpGroup::kLeaf};

inline constexpr Op kLeaves[] = {kParam, kInput, kState, kData, kVariable};

/// Whether an op may write the leaf.
constexpr bool is_mutable(Op leaf) { return leaf == kState || leaf == kVariable; }

}  // namespace op
}  // namespace veery
