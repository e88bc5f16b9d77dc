// experts.h: mixtures of experts.
#pragma once
#include "graph/ops/elementwise.h"

namespace veery {

/// Parameters of route. Let s be the softmax or sigmoid of the scores of a row. The `used` experts
/// with the largest s + bias are selected; ties prefer the lower index.
/// With `groups` > 1 the experts form equal groups, and only the `groups_used` best groups take
/// part. The score of a group is the sum of its `group_best` largest s + bias (DeepSeek-AI,
/// arXiv:2412.19437).
/// The weight of an expert is s, divided by the sum over the selected experts if `normalise`, times
/// `scale`.
/// `jitter` > 0 (SparseMixer, Liu et al., arXiv:2409.12136): experts are selected one by one by the
/// largest score m. The weight is the softmax over the remaining experts whose score s has (m - s)
/// / max(|s|, m) <= 2 jitter.
struct RouteAttr {
  int32_t used = 1;
  bool sigmoid = false;
  bool normalise = false;
  float scale = 1;
  int32_t groups = 1, groups_used = 1, group_best = 1;
  float jitter = 0;
};
/// Parameters of moe. y = sum over the experts e with nonzero gate, in order, of gate_e * (down_e
/// h_e + bias), with h_e = act(g) * u, g = gate_e x + bias, u = up_e x + bias. Experts without a
/// gate projection: h_e = act(u). `limit` > 0: g is at most limit, u is clamped to +-limit, and h =
/// g sigmoid(alpha g) (u + 1) (OpenAI, gpt-oss). `gate_input`: the weight of the expert multiplies
/// g and u instead of the result.
struct MoeAttr {
  int32_t experts = 1, used = 1;
  ActivateAttr activation = Activation::kSilu;
  bool gate_input = false;
  float limit = 0, alpha = 1;
};

/// Parameters of moe_tangent: the input (MoeIn) with a tangent, other than the residual.
struct MoeTangentAttr {
  MoeAttr moe;
  int32_t moves = 0;
};

struct RouteIn {
  enum { kScores, kBias };
};
struct RouteBackIn {
  enum { kScores, kBias, kDgates };
};
struct RouteTangentIn {
  enum { kScores, kBias, kTscores };
};
struct MoeIn {
  enum { kX, kGates, kResidual, kGate, kUp, kDown, kGateBias, kUpBias, kDownBias };
};
/// The indices of weights and biases are those of MoeIn.
struct MoeBackIn {
  enum { kDy, kX, kGates, kGate, kUp, kDown, kGateBias, kUpBias, kDownBias };
};
struct MoeTangentIn {
  enum { kX, kGates, kTangent, kGate, kUp, kDown, kGateBias, kUpBias, kDownBias };
};

namespace op {
namespace detail {

Outputs route(const OpContext& c);
Outputs route_derivative(const OpContext& c);
Outputs moe(const OpContext& c);
Outputs moe_back(const OpContext& c);
Outputs moe_back_w(const OpContext& c);
Outputs moe_back_bias(const OpContext& c);
Outputs moe_tangent(const OpContext& c);
Cost moe_cost(const OpContext& c, const Outputs& out, const RunSize& size);
Cost moe_back_cost(const OpContext& c, const Outputs& out, const RunSize& size);
Cost moe_tangent_cost(const OpContext& c, const Outputs& out, const RunSize& size);

}  // namespace detail

/// scores [rows, experts], bias [1, experts] -> [rows, experts]: the weight of each expert for the
/// row, 0 for experts that were not selected.
inline constexpr OpDef kRoute{.name = "route",
                              .inputs = {"scores", "bias?"},
                              .outputs = {"gates"},
                              .infer = detail::route,
                              .cost = detail::elements<4>};
/// x [rows, in], gates [rows, experts] with at most MoeAttr::used nonzero values per row, residual
/// [rows, out], gate (if the experts have one) and up [experts, hidden, in], down [experts, out,
/// hidden], biases in one row each (Shazeer et al., arXiv:1701.06538).
inline constexpr OpDef kMoe{.name = "moe",
                            .inputs = {"x", "gates", "residual?", "gate?", "up", "down",
                                       "gate_bias?", "up_bias?", "down_bias?"},
                            .infer = detail::moe,
                            .cost = detail::moe_cost};

/// Gradient of the scores. The selection is constant, so the bias has none.
inline constexpr OpDef kRouteBack{.name = "route_back",
                                  .group = OpGroup::kBackward,
                                  .inputs = {"scores", "bias?", "dgates"},
                                  .outputs = {"dscores"},
                                  .infer = detail::route_derivative,
                                  .cost = detail::elements<8>};
/// The tangent of the gates for one of the scores.
inline constexpr OpDef kRouteTangent{.name = "route_tangent",
                                     .group = OpGroup::kBackward,
                                     .inputs = {"scores", "bias?", "tscores"},
                                     .outputs = {"tgates"},
                                     .infer = detail::route_derivative,
                                     .cost = detail::elements<8>};

/// Gradients of moe. Those of gates that are zero are zero, because the selection is constant. The
/// gradient of an absent input is [1, 1] zero.
inline constexpr OpDef kMoeBack{
    .name = "moe_back",
    .group = OpGroup::kBackward,
    .inputs = {"dy", "x", "gates", "gate?", "up", "down", "gate_bias?", "up_bias?", "down_bias?"},
    .outputs = {"dx?", "dgates?"},
    .infer = detail::moe_back,
    .cost = detail::moe_back_cost};
inline constexpr OpDef kMoeBackW{.name = "moe_back_w",
                                 .group = OpGroup::kBackward,
                                 .inputs = kMoeBack.inputs,
                                 .outputs = {"dgate?", "dup?", "ddown?"},
                                 .infer = detail::moe_back_w,
                                 .cost = detail::moe_back_cost};
inline constexpr OpDef kMoeBackBias{.name = "moe_back_bias",
                                    .group = OpGroup::kBackward,
                                    .inputs = kMoeBack.inputs,
                                    .outputs = {"dgate_bias?", "dup_bias?", "ddown_bias?"},
                                    .infer = detail::moe_back_bias,
                                    .cost = detail::moe_back_cost};
/// The tangent of y for a tangent of one input; `tangent` has the shape of that input.
inline constexpr OpDef kMoeTangent{.name = "moe_tangent",
                                   .group = OpGroup::kBackward,
                                   .inputs = {"x", "gates", "tangent", "gate?", "up", "down",
                                              "gate_bias?", "up_bias?", "down_bias?"},
                                   .infer = detail::moe_tangent,
                                   .cost = detail::moe_tangent_cost};

inline constexpr Op kMixtures[] = {kRoute,   kMoe,      kRouteBack,   kRouteTangent,
                                   kMoeBack, kMoeBackW, kMoeBackBias, kMoeTangent};

}  // namespace op
}  // namespace veery
