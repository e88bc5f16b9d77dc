// experts.h: mixtures of experts.
#pragma once
#include "graph/ops/elementwise.h"

namespace veery {

/// route. With s = softmax or sigmoid of the scores of a row: the `used` experts with the largest
/// s + bias are chosen, the lower index among equals. With `groups` > 1 the experts are cut into
/// equal groups, of which only the `groups_used` best count: a group is as good as the sum of its
/// `group_best` largest s + bias (DeepSeek-AI, arXiv:2412.19437). What an expert counts is s,
/// divided by the sum over the chosen ones if `normalise`, times `scale`. `jitter` > 0: instead,
/// one expert after the other is chosen by its score m and counts its share of a softmax over those
/// left whose score s has (m - s) / max(|s|, m) <= 2 jitter (Liu et al., arXiv:2409.12136).
struct RouteAttr {
  int32_t used = 1;
  bool sigmoid = false;
  bool normalise = false;
  float scale = 1;
  int32_t groups = 1, groups_used = 1, group_best = 1;
  float jitter = 0;
};
/// moe. y = sum over the experts e, in order, whose gate is not 0, of gate_e * (down_e h_e + bias),
/// h_e = act(g) * u with g = gate_e x + bias, u = up_e x + bias. `limit` > 0: g is at most limit, u
/// within +-limit, h = g sigmoid(alpha g) (u + 1) (OpenAI, gpt-oss). `gate_input`: the gate
/// multiplies g and u instead of the result.
struct MoeAttr {
  int32_t experts = 1, used = 1;
  ActivateAttr activation = Activation::kSilu;
  bool gate_input = false;
  float limit = 0, alpha = 1;
};

struct RouteIn {
  enum { kScores, kBias };
};
struct MoeIn {
  enum { kX, kGates, kResidual, kGate, kUp, kDown, kGateBias, kUpBias, kDownBias };
};

namespace op {
namespace detail {

Outputs route(const OpContext& c);
Outputs moe(const OpContext& c);
Cost moe_cost(const OpContext& c, const Outputs& out, const RunSize& size);

}  // namespace detail

/// Scores [rows, experts], bias [1, experts] -> [rows, experts]: what each expert counts for the
/// row, 0 for those that were not chosen.
inline constexpr OpDef kRoute{.name = "route",
                              .inputs = {"scores", "bias?"},
                              .outputs = {"gates"},
                              .infer = detail::route,
                              .cost = detail::elements<4>};
/// x [rows, in], gates [rows, experts] of which at most MoeAttr::used a row are not 0, residual
/// [rows, out], gate and up [experts, hidden, in], down [experts, out, hidden], biases in one row
/// each (Shazeer et al., arXiv:1701.06538).
inline constexpr OpDef kMoe{.name = "moe",
                            .inputs = {"x", "gates", "residual?", "gate", "up", "down",
                                       "gate_bias?", "up_bias?", "down_bias?"},
                            .infer = detail::moe,
                            .cost = detail::moe_cost};

inline constexpr Op kMixtures[] = {kRoute, kMoe};

}  // namespace op
}  // namespace veery
