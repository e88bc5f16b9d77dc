// The derivatives of mixtures of experts: vjp and jvp against central differences and against each
// other. The selection of experts is constant.
#include "plan/derivative_scene.h"

namespace veery {
namespace {

using test::expect_right;
using test::Scene;

constexpr int kExperts = 6;

TEST(ExpertDerivatives, OfRouting) {
  const struct {
    const char* name;
    RouteAttr attr;
    bool bias = false;
  } kinds[] = {
      {"softmax", {.used = 2}},
      {"softmax, normalised", {.used = 3, .normalise = true, .scale = 2.5F}, true},
      {"sigmoid", {.used = 2, .sigmoid = true, .scale = 0.5F}},
      {"sigmoid, normalised", {.used = 3, .sigmoid = true, .normalise = true}, true},
      {"groups",
       {.used = 2, .normalise = true, .groups = 3, .groups_used = 2, .group_best = 2},
       true},
      {"near ones only", {.used = 2, .jitter = 0.3F}},
      {"one of one", {.used = kExperts, .sigmoid = true}},
  };
  for (const auto& kind : kinds)
    expect_right(kind.name, [&](Scene& s, auto& wrt) {
      wrt = {s.x(kExperts)};
      // A bias takes part in the selection only.
      if (kind.bias) wrt.push_back(s.param("bias", {1, kExperts}));
      return route(wrt[0], kind.attr, kind.bias ? scale(wrt[1], 0.1F) : Array{});
    });
}

// Four experts of width 5 on rows of 6, with results of 3 columns.
struct MoeCase {
  const char* name;
  MoeAttr attr;
  bool gated = true, biases = false;
};
const MoeCase kMoes[] = {
    {"gated", {.experts = 4, .used = 4}},
    {"gated, with biases", {.experts = 4, .used = 4, .activation = Activation::kGelu}, true, true},
    {"ungated", {.experts = 4, .used = 4, .activation = Activation::kReluSquared}, false, true},
    {"weights on inputs", {.experts = 4, .used = 4, .gate_input = true}, true, true},
    {"weights on inputs, ungated",
     {.experts = 4, .used = 4, .activation = Activation::kTanh, .gate_input = true},
     false},
    {"limits", {.experts = 4, .used = 4, .limit = 2.5F, .alpha = 1.7F}, true, true},
};

Array moe_of(Scene& s, const MoeCase& kind, Array gates, std::vector<Array>& wrt) {
  const auto add = [&](const char* name, const Shape& shape) {
    wrt.push_back(s.param(name, shape));
    return wrt.back();
  };
  const Array x = add("x", {Symbol::kRows, 6});
  Experts e;
  if (kind.gated) e.gate = add("gate", {4, 5, 6});
  e.up = add("up", {4, 5, 6});
  e.down = add("down", {4, 3, 5});
  if (kind.biases) {
    if (kind.gated) e.gate_bias = add("gate_bias", {1, 20});
    e.up_bias = add("up_bias", {1, 20});
    e.down_bias = add("down_bias", {1, 12});
  }
  return moe(scale(x, 0.4F), gates, e, kind.attr);
}

TEST(ExpertDerivatives, OfAllInputs) {
  for (const MoeCase& kind : kMoes)
    expect_right(kind.name, [&](Scene& s, auto& wrt) {
      wrt = {s.param("gates", {Symbol::kRows, 4})};
      return moe_of(s, kind, wrt[0], wrt);
    });
}

// Each input alone, so that none hides the error of another.
TEST(ExpertDerivatives, OfEachInput) {
  for (const MoeCase& kind : kMoes) {
    size_t count = 9;
    for (size_t i = 0; i < count; ++i)
      expect_right(kind.name, [&](Scene& s, auto& wrt) {
        std::vector<Array> all{s.param("gates", {Symbol::kRows, 4})};
        const Array y = moe_of(s, kind, all[0], all);
        count = all.size();
        wrt = {all[i]};
        return y;
      });
  }
}

TEST(ExpertDerivatives, OfSelectedExperts) {
  expect_right("two of four, and a residual", [](Scene& s, auto& wrt) {
    wrt = {s.param("scores", {Symbol::kRows, 4}), s.param("residual", {Symbol::kRows, 3})};
    const MoeCase kind{"", {.experts = 4, .used = 2}};
    const Array y = moe_of(s, kind, route(wrt[0], {.used = 2, .normalise = true}), wrt);
    Inputs in = y.node().in;
    in[MoeIn::kResidual] = wrt[1].value();
    return Array(s.graph, s.graph.add(op::kMoe, in, kind.attr));
  });
}

// Experts that no row selects have gradient zero.
TEST(ExpertDerivatives, AreZeroOfUnusedExperts) {
  Scene s;
  std::vector<Array> wrt;
  const MoeCase kind{"", {.experts = 4, .used = 2}};
  const Array gates = s.param("gates", {Symbol::kRows, 4});
  const Array y = moe_of(s, kind, gates, wrt);
  const Operand& of_gates = s.params.at("gates");
  for (int64_t r = 0; r < of_gates.rows; ++r)
    of_gates.row<float>(r)[1] = of_gates.row<float>(r)[3] = 0;
  wrt = {gates, Array(s.graph, y.node().in[MoeIn::kDown])};
  const std::vector<Array> grads = vjp(y, s.param("dy", y.shape()), wrt);
  const Operand dgates = s.run(grads[0]), ddown = s.run(grads[1]);
  for (int64_t r = 0; r < dgates.rows; ++r) {
    EXPECT_NE(dgates.row<float>(r)[0], 0);
    EXPECT_EQ(dgates.row<float>(r)[1], 0);
  }
  for (int64_t r = 0; r < ddown.rows; ++r) {
    const bool used = r / 3 % 2 == 0;
    EXPECT_EQ(ddown.row<float>(r)[2] != 0, used) << r;
  }
}

}  // namespace
}  // namespace veery
