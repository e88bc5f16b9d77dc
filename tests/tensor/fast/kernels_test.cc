// Kernels of fast functions: the same bits for any number of workers and on all instruction sets.
#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "base/random.h"
#include "kernels/cpu/tensor/fast/attention.h"
#include "kernels/cpu/tensor/fast/cross_entropy.h"
#include "kernels/cpu/tensor/fast/norm.h"

namespace veery {
namespace {

using Floats = std::vector<float>;

Floats numbers(int64_t count, uint64_t seed) {
  Random random(seed);
  Floats values(static_cast<size_t>(count));
  for (float& value : values) value = 4 * random.uniform() - 2;
  return values;
}
std::byte* bytes(Floats& values) { return reinterpret_cast<std::byte*>(values.data()); }

StridedElements contiguous(Floats& values, std::initializer_list<int64_t> shape) {
  StridedElements elements{bytes(values), ElementType::kF32, {}};
  int64_t stride = 1;
  for (size_t i = shape.size(); i-- > 0;) {
    elements.strides[i] = stride;
    stride *= shape.begin()[i];
  }
  return elements;
}

/// Runs compute(target, pool), which returns all results, for all targets and 1 to 3 workers.
template <typename Compute>
void expect_the_same_bits(const Compute& compute) {
  ThreadPool one(1), two(2), three(3);
  const Floats expected = compute(supported_targets().front(), one);
  ASSERT_FALSE(expected.empty());
  for (const Target target : supported_targets())
    for (ThreadPool* pool : {&one, &two, &three})
      EXPECT_EQ(compute(target, *pool), expected) << name(target) << " " << pool->size();
}

Floats joined(std::initializer_list<const Floats*> parts) {
  Floats all;
  for (const Floats* part : parts) all.insert(all.end(), part->begin(), part->end());
  return all;
}

TEST(FastKernels, NormsHaveTheSameBitsEverywhere) {
  constexpr int64_t kRows = 700, kColumns = 83;
  Floats x = numbers(kRows * kColumns, 1), t = numbers(kRows * kColumns, 2);
  Floats weight = numbers(kColumns, 3), bias = numbers(kColumns, 4);
  for (const bool centred : {false, true})
    expect_the_same_bits([&](Target target, ThreadPool& pool) {
      const NormProblem problem{.rows = {2, {kRows, kColumns}},
                                .centred = centred,
                                .eps = 1e-5,
                                .x = contiguous(x, {kRows, kColumns}),
                                .weight = contiguous(weight, {kColumns}),
                                .bias = contiguous(bias, {kColumns})};
      Floats y(x.size()), of_x(x.size()), of_weight(kColumns), of_bias(kColumns);
      norm(problem, bytes(y), target, pool);
      norm_gradients(
          problem,
          {contiguous(t, {kRows, kColumns}), bytes(of_x), bytes(of_weight), bytes(of_bias)}, target,
          pool);
      return joined({&y, &of_x, &of_weight, &of_bias});
    });
}

TEST(FastKernels, CrossEntropyHasTheSameBitsEverywhere) {
  constexpr int64_t kRows = 50, kClasses = 2077;
  Floats x = numbers(kRows * kClasses, 5), t = numbers(kRows, 6);
  std::vector<int64_t> targets;
  for (int64_t i = 0; i < kRows; ++i) targets.push_back(i % 7 == 0 ? -1 : i * 41);
  expect_the_same_bits([&](Target target, ThreadPool& pool) {
    const CrossEntropyProblem problem{.rows = {2, {kRows, kClasses}},
                                      .logits = contiguous(x, {kRows, kClasses}),
                                      .targets = targets.data(),
                                      .smoothing = 0.1};
    Floats losses(kRows), log_sums(kRows), of_x(x.size());
    cross_entropy(problem, bytes(losses), bytes(log_sums), target, pool);
    cross_entropy_gradient(problem, {bytes(log_sums), bytes(t), bytes(of_x)}, target, pool);
    return joined({&losses, &log_sums, &of_x});
  });
}

TEST(FastKernels, AttentionHasTheSameBitsEverywhere) {
  constexpr int64_t kQueries = 130, kKeys = 205, kSize = 20, kValues = 9;
  Floats q = numbers(2 * 4 * kQueries * kSize, 7), k = numbers(2 * 2 * kKeys * kSize, 8);
  Floats v = numbers(2 * 2 * kKeys * kValues, 9), t = numbers(2 * 4 * kQueries * kValues, 10);
  Floats mask = numbers(kQueries * kKeys, 11), sinks = numbers(4, 12);
  expect_the_same_bits([&](Target target, ThreadPool& pool) {
    AttentionProblem problem{.batch = 2,
                             .heads = 4,
                             .kv_heads = 2,
                             .queries = kQueries,
                             .keys = kKeys,
                             .key_size = kSize,
                             .value_size = kValues,
                             .scale = 0.4,
                             .causal = true,
                             .window = 120,
                             .q = contiguous(q, {2, 4, kQueries, kSize}),
                             .k = contiguous(k, {2, 2, kKeys, kSize}),
                             .v = contiguous(v, {2, 2, kKeys, kValues}),
                             .sinks = contiguous(sinks, {4})};
    problem.mask = contiguous(mask, {1, 1, kQueries, kKeys});
    problem.mask.strides[0] = problem.mask.strides[1] = 0;
    Floats out(t.size()), log_sums(2 * 4 * kQueries);
    attention(problem, bytes(out), bytes(log_sums), target, pool);
    Floats of_q(q.size()), of_k(k.size()), of_v(v.size()), of_sinks(4);
    Floats of_mask(static_cast<size_t>(2 * 4 * kQueries * kKeys));
    attention_gradients(problem,
                        {.out = contiguous(out, {2, 4, kQueries, kValues}),
                         .cotangent = contiguous(t, {2, 4, kQueries, kValues}),
                         .log_sums = bytes(log_sums),
                         .q = bytes(of_q),
                         .k = bytes(of_k),
                         .v = bytes(of_v),
                         .mask = bytes(of_mask),
                         .sinks = bytes(of_sinks)},
                        target, pool);
    return joined({&out, &log_sums, &of_q, &of_k, &of_v, &of_mask, &of_sinks});
  });
}

}  // namespace
}  // namespace veery
