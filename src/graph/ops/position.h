// position.h: rotary position embedding, and scaling by position.
#pragma once
#include "graph/ops/elementwise.h"

namespace veery {

/// Parameters of rope_angles. Angle i of position p is p * inv_freq(i), i < dims / 2. Long-context
/// scalings have the names of transformers.
enum class RopeScaling : uint8_t { kNone, kLinear, kLlama3, kYarn };
struct AnglesAttr {
  int32_t dims = 0;  ///< rotated dimensions of a head
  double theta = 10000;
  RopeScaling scaling = RopeScaling::kNone;
  double factor = 1;
  double low_freq_factor = 1, high_freq_factor = 4;  ///< kLlama3
  double beta_fast = 32, beta_slow = 1;              ///< kYarn
  bool truncate = true;         ///< kYarn: the ramp begins and ends at whole pairs
  double attention_factor = 1;  ///< multiplies cos and sin
  double original_context = 8192;
  /// Temperature: cos and sin are also multiplied by the factor of PositionScaleAttr{temperature,
  /// original_context}.
  double temperature = 0;
  bool operator==(const AnglesAttr&) const = default;
};
/// Parameters of position_scale. The factor at position p is 1 + weight * ln(1 + floor((p + shift)
/// / period)); shift is 0 or more.
struct PositionScaleAttr {
  double weight = 0;
  double period = 1;  ///< in positions
  double shift = 0;
};
/// Parameters of rope. Rotates `dims` dimensions of a head starting at `begin`; other dimensions
/// are unchanged. Pair i is (2i, 2i + 1) if interleaved, otherwise (i, i + dims/2). `sign` -1
/// rotates back (vjp).
struct RopeAttr {
  int32_t heads = 1;
  int32_t dims = 0;
  bool interleaved = false;
  float sign = 1;
  int32_t begin = 0;
};
/// Parameters of qkv_rope: RoPE on queries and keys of a fused projection, and cache writes.
struct QkvRopeAttr {
  int32_t heads = 1, kv_heads = 1, head_dim = 0;
  int32_t dims = 0;
  bool interleaved = false;
  float eps = 0;  ///< of the QK norms, if present
};

struct RopeAnglesIn {
  enum { kPositions, kDivisors, kExtended, kIsExtended };
};
struct PositionScaleIn {
  enum { kX, kPositions };
};
struct RopeIn {
  enum { kX, kAngles };
};
struct RopeBackAnglesIn {
  enum { kDy, kX };
};
struct RopeTangentIn {
  enum { kX, kTangles };
};
struct RopeAnglesBackIn {
  enum { kAngles, kPositions, kDivisors, kExtended, kIsExtended, kDangles };
};
/// The first inputs are those of RopeAnglesBackIn.
struct RopeAnglesTangentIn {
  enum { kAngles, kPositions, kDivisors, kExtended, kIsExtended, kTdivisors, kTextended };
};
struct QkvRopeIn {
  enum { kQkv, kAngles, kKeys, kValues, kQueryNorm, kKeyNorm };
};

namespace op {
namespace detail {

Outputs rope_angles(const OpContext& c);
Outputs position_scale(const OpContext& c);
Outputs rope(const OpContext& c);
Outputs qkv_rope(const OpContext& c);
Outputs rope_back_angles(const OpContext& c);
Outputs rope_tangent(const OpContext& c);
Outputs rope_angles_back(const OpContext& c);
Outputs rope_angles_tangent(const OpContext& c);
Value decompose_qkv_rope(Graph& graph, const Node& node);

inline Cost rope_cost(const OpContext&, const Outputs& out, const RunSize& size) {
  return {.flops = 3 * size.elements(out.types[0].shape)};
}

}  // namespace detail

/// cos of angle i at column 2i and sin at 2i + 1: [rows, dims]. Frequencies are divided by
/// `divisors` [1, dims / 2]; where `is_extended` [rows, 1] i32 is not 0, by `extended` instead.
inline constexpr OpDef kRopeAngles{
    .name = "rope_angles",
    .inputs = {"positions", "divisors?", "extended?", "is_extended?"},
    .outputs = {"angles"},
    .infer = detail::rope_angles};
/// Rotates x [rows, heads * head_dim] (Su et al., arXiv:2104.09864).
inline constexpr OpDef kRope{
    .name = "rope", .inputs = {"x", "angles"}, .infer = detail::rope, .cost = detail::rope_cost};
/// Multiplies each row of x by a factor that depends on its position [rows, 1] i32: the temperature
/// of attention scores at positions beyond the trained context (Nakanishi, arXiv:2501.19399).
inline constexpr OpDef kPositionScale{.name = "position_scale",
                                      .inputs = {"x", "positions"},
                                      .infer = detail::position_scale,
                                      .cost = detail::elements<1>};
/// QK norms, RoPE and cache writes of a fused projection [rows, q + k + v]; returns the queries.
inline constexpr OpDef kQkvRope{
    .name = "qkv_rope",
    .group = OpGroup::kFused,
    .inputs = {"qkv", "angles", "keys", "values", "query_norm?", "key_norm?"},
    .outputs = {"q"},
    .infer = detail::qkv_rope,
    .cost = detail::rope_cost,
    .writes = 1U << QkvRopeIn::kKeys | 1U << QkvRopeIn::kValues,
    .decompose = detail::decompose_qkv_rope};

/// Gradient of rope with respect to the angles: [rows, dims]. x is the input of rope.
inline constexpr OpDef kRopeBackAngles{.name = "rope_back_angles",
                                       .group = OpGroup::kBackward,
                                       .inputs = {"dy", "x"},
                                       .outputs = {"dangles"},
                                       .infer = detail::rope_back_angles,
                                       .cost = detail::rope_cost};
/// The tangent of rope for a tangent of the angles.
inline constexpr OpDef kRopeTangent{.name = "rope_tangent",
                                    .group = OpGroup::kBackward,
                                    .inputs = {"x", "tangles"},
                                    .infer = detail::rope_tangent,
                                    .cost = detail::rope_cost};
/// Gradient of rope_angles with respect to the divisors; positions are integers. `angles` is the
/// result of rope_angles.
inline constexpr OpDef kRopeAnglesBack{
    .name = "rope_angles_back",
    .group = OpGroup::kBackward,
    .inputs = {"angles", "positions", "divisors", "extended?", "is_extended?", "dangles"},
    .outputs = {"ddivisors?", "dextended?"},
    .infer = detail::rope_angles_back};
/// The tangent of rope_angles for those of the divisors; absent ones are zero.
inline constexpr OpDef kRopeAnglesTangent{.name = "rope_angles_tangent",
                                          .group = OpGroup::kBackward,
                                          .inputs = {"angles", "positions", "divisors", "extended?",
                                                     "is_extended?", "tdivisors?", "textended?"},
                                          .outputs = {"tangles"},
                                          .infer = detail::rope_angles_tangent};

inline constexpr Op kPositions[] = {
    kRopeAngles,     kRope,        kPositionScale,  kQkvRope,
    kRopeBackAngles, kRopeTangent, kRopeAnglesBack, kRopeAnglesTangent};

}  // namespace op
}  // namespace veery
