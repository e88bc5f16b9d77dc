// The derivatives of attention: vjp and jvp against central differences and against each other.
#include "plan/derivative_scene.h"

namespace veery {
namespace {

using test::expect_right;
using test::Scene;

// Queries of 2 heads of size 4, keys of one head, values of one head of size `value`.
std::vector<Array> operands(Scene& s, int value = 4) {
  return {s.x(8), s.param("k", {Symbol::kRows, 4}), s.param("v", {Symbol::kRows, value})};
}

TEST(AttentionDerivatives, OfEveryMask) {
  for (const Mask mask : {Mask::kCausal, Mask::kFull, Mask::kSymmetric})
    for (const int window : {0, 2})
      expect_right("attend", [&](Scene& s, auto& wrt) {
        wrt = operands(s);
        return attend(wrt[0], wrt[1], wrt[2],
                      {.heads = 2,
                       .kv_heads = 1,
                       .scale = 0.5F,
                       .window = mask == Mask::kSymmetric ? 1
                                 : mask == Mask::kCausal  ? window
                                                          : 0,
                       .softcap = 3,
                       .alibi = 4,
                       .mask = mask});
      });
  expect_right("chunks", [](Scene& s, auto& wrt) {
    wrt = operands(s);
    return attend(wrt[0], wrt[1], wrt[2],
                  {.heads = 2, .kv_heads = 1, .scale = 0.5F, .window = 2, .chunked = true});
  });
}

TEST(AttentionDerivatives, OfTheLogarithmOfTheSum) {
  for (const bool y_too : {false, true})
    for (const bool sinks : {false, true})
      expect_right("log_sum", [&](Scene& s, auto& wrt) {
        wrt = operands(s);
        if (sinks) wrt.push_back(s.param("sinks", {1, 2}));
        const Array y =
            attend(wrt[0], wrt[1], wrt[2], {.heads = 2, .kv_heads = 1, .scale = 0.5F, .softcap = 3},
                   sinks ? wrt[3] : Array{});
        return y_too ? concat(y, log_sum_of(y)) : concat(log_sum_of(y), log_sum_of(y));
      });
}

TEST(AttentionDerivatives, OfSinks) {
  for (const bool alone : {false, true})
    expect_right("sinks", [alone](Scene& s, auto& wrt) {
      const std::vector<Array> in = operands(s);
      const Array sinks = s.param("sinks", {1, 2});
      wrt = alone ? std::vector{sinks} : std::vector{in[0], in[1], in[2], sinks};
      return attend(in[0], in[1], in[2], {.heads = 2, .kv_heads = 1, .scale = 0.5F, .window = 2},
                    sinks);
    });
}

// Keys and values may differ in size, and each of the inputs may be the only one that moves.
TEST(AttentionDerivatives, OfValuesOfAnotherSize) {
  for (const int moves : {0, 1, 2, 3})
    expect_right("values of size 3", [moves](Scene& s, auto& wrt) {
      const std::vector<Array> in = operands(s, 3);
      wrt = moves == 3 ? in : std::vector{in[static_cast<size_t>(moves)]};
      return attend(in[0], in[1], in[2], {.heads = 2, .kv_heads = 1, .scale = 0.5F});
    });
}

// Latent attention: the first dimensions of a key are the value.
TEST(AttentionDerivatives, OfValuesInsideOfKeys) {
  for (const int kv_heads : {1, 2})
    expect_right("values inside of keys", [kv_heads](Scene& s, auto& wrt) {
      wrt = {s.x(10), s.param("k", {Symbol::kRows, 5 * kv_heads})};
      const Array keys = scale(wrt[1], 0.7F);
      return attend(wrt[0], keys, keys,
                    {.heads = 2, .kv_heads = kv_heads, .scale = 0.5F, .softcap = 4, .shared = 3});
    });
}

// The choice of positions is constant. Queries of the indexer get gradient zero.
TEST(AttentionDerivatives, OfChosenPositions) {
  expect_right("chosen positions", [](Scene& s, auto& wrt) {
    wrt = {s.x(10), s.param("k", {Symbol::kRows, 5}), s.param("sinks", {1, 2}),
           s.param("index_q", {Symbol::kRows, 6})};
    const Array chosen =
        choose_positions(wrt[3], s.param("index_weights", {Symbol::kRows, 2}),
                         s.param("index_k", {Symbol::kRows, 3}), {.heads = 2, .used = 2});
    return attend(wrt[0], wrt[1], wrt[1], {.heads = 2, .kv_heads = 1, .scale = 0.5F, .shared = 3},
                  wrt[2], chosen);
  });
}

// The last layer computes attention only for the requested outputs.
TEST(AttentionDerivatives, OfRequestedOutputs) {
  expect_right("outputs", [](Scene& s, auto& wrt) {
    wrt = operands(s);
    const Array q = select_rows(wrt[0], s.index("output_rows", Symbol::kOutputs));
    return attend(q, wrt[1], wrt[2], {.heads = 2, .kv_heads = 1, .scale = 0.5F, .alibi = 4});
  });
}

}  // namespace
}  // namespace veery
