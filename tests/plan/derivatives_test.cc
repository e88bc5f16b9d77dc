// The derivatives of each single op: vjp and jvp against central differences and against each
// other: dy . (J t) = (J^T dy) . t for any dy and t. Those of attention and of experts have files
// of their own.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "graph/ops/recurrence_back.h"
#include "plan/derivative_scene.h"

namespace veery {
namespace {

using test::dot;
using test::expect_right;
using test::Scene;

TEST(Derivatives, OfElements) {
  expect_right("add and mul", [](Scene& s, auto& wrt) {
    wrt = {s.x(), s.param("z", {Symbol::kRows, 6})};
    return (wrt[0] + wrt[1]) * wrt[1];
  });
  expect_right("add and mul of one row, mul of parts", [](Scene& s, auto& wrt) {
    wrt = {s.x(), s.param("row", {1, 6}), s.param("other", {1, 6}),
           s.param("parts", {Symbol::kRows, 3})};
    return ((wrt[0] * wrt[1]) + wrt[2]) * wrt[3];
  });
  for (const Activation kind :
       {Activation::kSilu, Activation::kGelu, Activation::kGeluErf, Activation::kReluSquared,
        Activation::kTanh, Activation::kSigmoid, Activation::kSoftplus, Activation::kLogSigmoid})
    expect_right("activate", [kind](Scene& s, auto& wrt) {
      wrt = {s.x()};
      return softcap(activate(scale(wrt[0], 1.5F), kind), 2);
    });
}

TEST(Derivatives, OfProducts) {
  expect_right("linear", [](Scene& s, auto& wrt) {
    wrt = {s.x(), s.param("w", {4, 6}), s.param("b", {1, 4})};
    return linear(wrt[0], wrt[1], wrt[2]);
  });
  expect_right("head_linear", [](Scene& s, auto& wrt) {
    wrt = {s.x(10), s.param("w", {2, 4, 3})};
    return head_linear(wrt[0], wrt[1], 2);
  });
  expect_right("head_linear, its weight alone", [](Scene& s, auto& wrt) {
    wrt = {s.param("w", {2, 2, 3})};
    return head_linear(s.x(8), wrt[0], 2);
  });
  expect_right("linear_heads", [](Scene& s, auto& wrt) {
    wrt = {s.x(), s.param("w", {6, 2})};
    return linear_heads(wrt[0], wrt[1]);
  });
  expect_right("linear, its bias alone", [](Scene& s, auto& wrt) {
    wrt = {s.param("b", {1, 4})};
    return linear(s.x(), s.param("w", {4, 6}), wrt[0]);
  });
}

TEST(Derivatives, OfNorms) {
  expect_right("l2_norm", [](Scene& s, auto& wrt) {
    wrt = {s.x()};
    return l2_norm(wrt[0]);
  });
  for (const int groups : {1, 2})
    expect_right("rms_norm", [groups](Scene& s, auto& wrt) {
      wrt = {s.x(), s.param("w", {1, 6 / groups})};
      return rms_norm(wrt[0], wrt[1], 1e-2F, groups);
    });
  for (const int groups : {1, 2})
    for (const int own : {false, true})
      expect_right("layer_norm", [&](Scene& s, auto& wrt) {
        const int size = own ? 6 : 6 / groups;
        wrt = {s.x(), s.param("w", {1, size}), s.param("b", {1, size})};
        return layer_norm(wrt[0], wrt[1], wrt[2], 1e-2F, groups);
      });
  expect_right("the weights of norms alone", [](Scene& s, auto& wrt) {
    wrt = {s.param("w", {1, 6}), s.param("v", {1, 3}), s.param("b", {1, 3})};
    return layer_norm(s.x(), wrt[1], wrt[2], 1e-5F, 2) + rms_norm(s.x(), wrt[0], 1e-5F);
  });
}

// Rounding counts as the identity: gradients are cast back, with the precision of the cast.
TEST(Derivatives, OfCastsPassGradientsThrough) {
  Scene s;
  const Array x = s.x(), dy = s.param("dy", x.shape());
  const Array y = cast(cast(x, DType::kBF16), DType::kF32);
  const Operand gradient = s.run(vjp(y, dy, {x})[0]), expected = s.run(dy);
  for (int64_t r = 0; r < expected.rows; ++r)
    for (int32_t c = 0; c < expected.cols; ++c)
      EXPECT_EQ(gradient.row<float>(r)[c], bf16_to_f32(f32_to_bf16(expected.row<float>(r)[c])));
}

TEST(Derivatives, OfRowsAndColumns) {
  expect_right("embed", [](Scene& s, auto& wrt) {
    wrt = {s.param("e", {5, 6})};
    return embed(s.index("tokens", Symbol::kRows), wrt[0], 0.5F);
  });
  expect_right("shift", [](Scene& s, auto& wrt) {
    wrt = {s.x()};
    return shift(wrt[0], 2) * wrt[0] + shift(wrt[0], -1);
  });
  expect_right("columns and concat", [](Scene& s, auto& wrt) {
    wrt = {s.x(), s.param("z", {Symbol::kRows, 3})};
    return concat(columns(wrt[0], 1, 4), wrt[1]) * concat(wrt[1], columns(wrt[0], 2, 4));
  });
  expect_right("concat with what does not change", [](Scene& s, auto& wrt) {
    wrt = {s.x()};
    return concat(s.param("z", {Symbol::kRows, 3}), wrt[0]);
  });
  expect_right("select_rows", [](Scene& s, auto& wrt) {
    wrt = {s.x()};
    return select_rows(wrt[0], s.index("output_rows", Symbol::kOutputs));
  });
}

TEST(Derivatives, OfPooling) {
  for (const Pooling kind : {Pooling::kFirst, Pooling::kLast, Pooling::kMean, Pooling::kMax,
                             Pooling::kSumOverRoot, Pooling::kWeightedMean})
    expect_right("pool", [kind](Scene& s, auto& wrt) {
      wrt = {s.x()};
      return pool(wrt[0], kind);
    });
}

TEST(Derivatives, OfTheLargest) {
  expect_right("top_k", [](Scene& s, auto& wrt) {
    wrt = {s.x()};
    const Array top = top_k(wrt[0], 4);
    return concat(top, Array(s.graph, Value(top.id(), TopKOut::kMass)));
  });
  expect_right("top_k of few", [](Scene& s, auto& wrt) {
    wrt = {s.x(2)};
    return Array(s.graph, Value(top_k(wrt[0], 3).id(), TopKOut::kMass));
  });
}

// The loss is a mean over the rows that have a target.
TEST(Derivatives, OfLosses) {
  expect_right("cross_entropy", [](Scene& s, auto& wrt) {
    wrt = {s.x(5)};
    s.block.input<int32_t>("targets")[2] = -1;
    return cross_entropy(wrt[0], s.index("targets", Symbol::kRows));
  });
}

TEST(Derivatives, OfSums) {
  expect_right("sum_to", [](Scene& s, auto& wrt) {
    wrt = {s.x(), s.param("z", {Symbol::kRows, 3})};
    const Array parts = apply(op::kSumTo, {wrt[0] * wrt[0], wrt[1]});
    const Array all = apply(op::kSumTo, {parts, s.param("one", {1, 1})});
    return parts * wrt[1] * all;
  });
}

TEST(Derivatives, OfPositions) {
  for (const bool interleaved : {false, true})
    expect_right("rope", [interleaved](Scene& s, auto& wrt) {
      wrt = {s.x(12), s.param("divisors", {1, 2})};
      const Array divisors = activate(wrt[1], Activation::kSoftplus);
      const Array angles = rope_angles(s.index("positions", Symbol::kRows),
                                       {.dims = 4, .theta = 50, .attention_factor = 1.3}, divisors);
      return rope(wrt[0], angles, {.heads = 2, .dims = 4, .interleaved = interleaved, .begin = 1});
    });
  const AnglesAttr scaled[] = {
      {.dims = 4, .theta = 50, .scaling = RopeScaling::kLinear, .factor = 2},
      {.dims = 4,
       .theta = 50,
       .scaling = RopeScaling::kLlama3,
       .factor = 3,
       .high_freq_factor = 30,
       .original_context = 64},
      {.dims = 4, .theta = 50, .scaling = RopeScaling::kYarn, .factor = 3, .original_context = 64}};
  for (const AnglesAttr& attr : scaled)
    expect_right("divisors of two kinds of sequences", [&attr](Scene& s, auto& wrt) {
      wrt = {s.param("divisors", {1, 2}), s.param("extended", {1, 2})};
      const auto positive = [](Array x) { return activate(x, Activation::kSoftplus); };
      const Array angles = rope_angles(s.index("positions", Symbol::kRows), attr, positive(wrt[0]),
                                       positive(wrt[1]), s.index("tokens", Symbol::kRows));
      return rope(s.x(12), angles, {.heads = 3, .dims = 4});
    });
  expect_right("position_scale", [](Scene& s, auto& wrt) {
    wrt = {s.x(12)};
    return position_scale(wrt[0], s.index("positions", Symbol::kRows),
                          {.weight = 0.5, .period = 2, .shift = 1});
  });
}

/// A kind of recurrence, and its inputs besides q, k and v.
struct ScanCase {
  const char* name;
  ScanAttr attr;
  bool gate = false;
  bool one_decay = false;  ///< the same for all positions
  int bonus = 0;           ///< 1: per head; 2: per channel; 0: none
};
const ScanCase kScans[] = {
    {"no decay", {.heads = 3, .key_heads = 3, .decay = Decay::kNone}},
    {"constant", {.heads = 4, .key_heads = 2, .scale = 0.5F}, true, true},
    {"mamba2", {.heads = 4, .key_heads = 2, .map = HeadMap::kTiled}, true, false, 1},
    {"mamba1", {.heads = 3, .key_heads = 1, .decay = Decay::kOuter}},
    {"gla",
     {.heads = 2, .key_heads = 2, .decay = Decay::kChannel, .read_before = true},
     false,
     false,
     2},
    {"delta",
     {.heads = 4, .key_heads = 2, .map = HeadMap::kTiled, .low_rank = LowRank::kDelta},
     true},
    {"kda",
     {.heads = 2, .key_heads = 1, .decay = Decay::kChannel, .low_rank = LowRank::kDelta},
     true},
    {"rwkv7",
     {.heads = 2, .key_heads = 2, .decay = Decay::kChannel, .low_rank = LowRank::kGeneral},
     false,
     false,
     2},
    {"before, gated",
     {.heads = 2, .key_heads = 1, .low_rank = LowRank::kDelta, .read_before = true},
     true,
     false,
     2},
    {"normaliser", {.heads = 2, .key_heads = 1, .normaliser = true, .eps = 0.1F}, true},
    {"mlstm",
     {.heads = 2,
      .key_heads = 2,
      .exponential = true,
      .normaliser = true,
      .scale = 0.4F,
      .eps = 1e-3F},
     true},
    {"mlstm, divided by few",
     {.heads = 2, .key_heads = 1, .exponential = true, .normaliser = true, .scale = 2, .eps = 0.3F},
     true},
};

// Keys have 5 channels, values 3 columns.
Array scan_of(Scene& s, const ScanCase& kind, std::vector<Array>& wrt, int32_t chunk = 0) {
  const ScanAttr& attr = kind.attr;
  const int channels = attr.heads * 5, values = attr.heads * 3;
  const auto add = [&](const char* name, const Shape& shape) {
    wrt.push_back(s.param(name, shape));
    return wrt.back();
  };
  const auto row = [&](const char* name, int cols) { return add(name, {Symbol::kRows, cols}); };
  ScanInputs in{.q = row("q", attr.key_heads * 5),
                .k = scale(l2_norm(row("k", attr.key_heads * 5)), 1.1F),
                .v = row("v", values)};
  const int decays = attr.decay == Decay::kHead      ? attr.heads
                     : attr.decay == Decay::kChannel ? channels
                                                     : values;
  if (attr.decay != Decay::kNone) {
    const Shape shape = kind.one_decay ? Shape{1, decays} : Shape{Symbol::kRows, decays};
    in.decay = activate(add("decay", shape), attr.decay == Decay::kOuter ? Activation::kSoftplus
                                                                         : Activation::kLogSigmoid);
  }
  if (attr.decay == Decay::kOuter)
    in.rates = activate(add("rates", {5, values}), Activation::kLogSigmoid);
  if (kind.gate) {
    in.gate = row("gate", attr.heads);
    if (!attr.exponential) in.gate = activate(in.gate, Activation::kSigmoid);
  }
  if (attr.low_rank == LowRank::kGeneral) {
    in.a = l2_norm(row("a", channels));
    in.b = scale(l2_norm(row("b", channels)), -0.5F);
  }
  if (kind.bonus > 0) in.bonus = add("bonus", {1, kind.bonus == 1 ? attr.heads : channels});
  if (chunk == 0) return scan(in, attr);
  return apply(op::kScanChunks,
               {in.q, in.k, in.v, in.decay, in.gate, in.a, in.b, in.bonus, in.rates},
               ScanChunksAttr{attr, chunk});
}

TEST(Derivatives, OfScans) {
  for (const ScanCase& kind : kScans)
    for (const int32_t chunk : {0, 1, 3, 64})
      expect_right(kind.name, [&](Scene& s, auto& wrt) { return scan_of(s, kind, wrt, chunk); });
}

// The chunkwise form equals the decomposition for any chunk size, across several chunks and with an
// incomplete last one.
TEST(ScanChunks, AreTheScan) {
  for (const ScanCase& kind : kScans)
    for (const int32_t chunk : {1, 7, 16, 64, 500}) {
      SCOPED_TRACE(fmt::format("{}, {} positions", kind.name, chunk));
      Scene s(71, 130);
      std::vector<Array> wrt;
      const Array chunked = scan_of(s, kind, wrt, chunk);
      const Node node = chunked.node();
      const Operand whole = s.run({s.graph, node.op->decompose(s.graph, node)});
      const Operand parts = s.run(chunked);
      double largest = 0, error = 0;
      for (int64_t r = 0; r < whole.rows; ++r)
        for (int32_t c = 0; c < whole.cols; ++c) {
          largest = std::max(largest, std::abs(double{whole.row<float>(r)[c]}));
          error = std::max(
              error, std::abs(double{whole.row<float>(r)[c]} - double{parts.row<float>(r)[c]}));
        }
      EXPECT_GT(largest, 0.1);
      EXPECT_LT(error, 2e-5 * largest);
    }
}

// vjp and jvp are products with the same matrix, also for spans so long that the backward pass
// recomputes states.
TEST(Derivatives, OfLongScansAreAdjoint) {
  static_assert(kScanBackPositions == 64);
  for (const ScanCase& kind : kScans) {
    SCOPED_TRACE(kind.name);
    Scene s(64, 141);
    std::vector<Array> wrt, tangents;
    const Array y = scan_of(s, kind, wrt);
    const Array dy = s.param("dy", y.shape());
    for (size_t i = 0; i < wrt.size(); ++i)
      tangents.push_back(s.param("t" + std::to_string(i), wrt[i].shape()));
    const std::vector<Array> grads = vjp(y, dy, wrt);
    double reverse = 0;
    for (size_t i = 0; i < wrt.size(); ++i)
      reverse += dot(s.run(grads[i]), s.params.at(tangents[i].node().name));
    const double along = dot(s.run(jvp(y, wrt, tangents)), s.params.at("dy"));
    EXPECT_NEAR(reverse, along, 1e-4 * (1 + std::abs(along)));
  }
}

TEST(Derivatives, OfConvolutions) {
  for (const Activation kind : {Activation::kNone, Activation::kSilu})
    expect_right("conv1d", [kind](Scene& s, auto& wrt) {
      wrt = {s.x(), s.param("w", {3, 6}), s.param("b", {1, 6})};
      return conv1d(wrt[0], wrt[1], wrt[2], {}, kind);
    });
  expect_right("conv1d, wider than a sequence, without a bias", [](Scene& s, auto& wrt) {
    wrt = {s.x(), s.param("w", {5, 6})};
    return conv1d(wrt[0], wrt[1], {}, {}, Activation::kTanh);
  });
  expect_right("conv1d, its bias alone", [](Scene& s, auto& wrt) {
    wrt = {s.param("b", {1, 6})};
    return conv1d(s.x(), s.param("w", {2, 6}), wrt[0], {}, Activation::kSilu);
  });
}

TEST(Derivatives, OfSlstm) {
  expect_right("slstm", [](Scene& s, auto& wrt) {
    wrt = {s.x(24), s.param("r", {3, 24}), s.param("b", {1, 24})};
    return slstm(wrt[0], scale(wrt[1], 0.5F), wrt[2], {}, 2);
  });
  expect_right("slstm, its recurrent weight alone", [](Scene& s, auto& wrt) {
    wrt = {s.param("r", {2, 8})};
    return slstm(s.x(8), wrt[0], s.param("b", {1, 8}), {}, 1);
  });
}

TEST(Derivatives, WhatIsNotWantedIsNotMade) {
  Scene s;
  const Array q = s.x(8);
  const Array k = s.param("k", {Symbol::kRows, 4});
  const Array y = attend(q, k, k, {.heads = 2, .kv_heads = 1});
  const Array dy = s.param("dy", y.shape());
  const Array dq = vjp(y, dy, {q})[0];
  EXPECT_EQ(dq.node().op, op::kAttendBack);
  EXPECT_EQ(dq.shape(), q.shape());
  s.run(dq);
  const Dispatch& back = s.plans.back()->table().back();
  EXPECT_TRUE(back.outputs[0]);
  EXPECT_FALSE(back.outputs[1] || back.outputs[2]);
}

}  // namespace
}  // namespace veery
