// Constant arrays and variables of a graph: the host reads and writes variables between runs, and
// runs update them in place, with the same results on the CPU and on the emulator, with the CUDA
// and the Metal kernels.
#include <gtest/gtest.h>

#include <memory>
#include <vector>

#include "array/array.h"
#include "kernels/cpu/backend/cpu_backend.h"
#include "kernels/gpu/gpu.h"
#include "kernels/metal/machine.h"
#include "kernels/metal/metal.h"
#include "plan/plan.h"
#include "support/fake_metal.h"
#include "support/gpu_machine.h"

namespace veery {
namespace {

constexpr int kCount = 3, kColumns = 5;

std::vector<float> numbers(int count, float first) {
  std::vector<float> all(static_cast<size_t>(count));
  for (float& x : all) x = first++;
  return all;
}

/// y = x * scales + offsets[0]; then sums += table, by rows that an i32 variable counts.
struct VariableGraph {
  VariableGraph() {
    const Array x = input(graph, "x", {Symbol::kRows, kColumns});
    const Array scales = data(graph, {{1, kColumns}}, std::span<const float>(numbers(kColumns, 2)));
    const std::vector<int32_t> ids = {2, 0, 1};
    const Array order = data(graph, {{kCount, 1}, DType::kI32}, std::span(ids));
    const Array offsets = variable(graph, "offsets", {{1, kColumns}});
    const Array sums = variable(graph, "sums", {{kCount, kColumns}});
    const Array steps = variable(graph, "steps", {{1, 1}, DType::kI32});
    const Array half = variable(graph, "half", {{1, kColumns}, DType::kBF16});
    y = x * scales + offsets;
    const Array table = embed(order, sums);
    new_sums = assign(sums + table, sums);
    const Array counted = cast(steps, DType::kF32) + constant(graph, {1, 1}, 1);
    new_steps = assign(cast(counted, DType::kI32), steps);
    new_half = assign(cast(offsets * constant(graph, {1, kColumns}, 0.5F), DType::kBF16), half);
    after = new_sums * scales;
  }
  Graph graph;
  Array y, new_sums, new_steps, new_half, after;
};

template <typename T>
void append(std::vector<float>& all, const std::vector<T>& values) {
  for (const T value : values) all.push_back(static_cast<float>(value));
}

/// Returns the roots and variables of two runs, between which the host writes a variable.
std::vector<float> results(Backend& backend, bool fused) {
  VariableGraph g;
  RunBlock block(g.graph, 2);
  const auto x = numbers(2 * kColumns, -3);
  std::ranges::copy(x, block.input<float>("x").begin());
  block.add_span(0, 2, 0);
  block.shape.sequences = 1;
  const ParamStore params;
  VariableStore variables(backend.device());
  variables.add(g.graph);
  variables.write<float>("sums", numbers(kCount * kColumns, 1));
  const std::vector<int32_t> large = {1 << 24};
  variables.write<int32_t>("steps", large);
  Plan plan(
      g.graph,
      {g.y.value(), g.new_sums.value(), g.new_steps.value(), g.new_half.value(), g.after.value()},
      {.places = {{.backend = &backend, .params = &params, .variables = &variables}},
       .block = &block},
      {.rows = 2, .fuse = fused});
  std::vector<float> all;
  for (int round = 0; round < 2; ++round) {
    plan.run();
    for (size_t root : {0, 4})
      for (int64_t r = 0; r < (root == 0 ? 2 : kCount); ++r)
        append(all, std::vector<float>(plan.root(root).row<float>(r),
                                       plan.root(root).row<float>(r) + kColumns));
    std::vector<float> sums(kCount * kColumns);
    std::vector<int32_t> steps(1);
    std::vector<uint16_t> half(kColumns);
    variables.read<float>("sums", sums);
    variables.read<int32_t>("steps", steps);
    variables.read<uint16_t>("half", half);
    append(all, sums);
    append(all, steps);
    append(all, half);
    variables.write<float>("offsets", numbers(kColumns, 100));
    steps[0] = 41;
    variables.write<int32_t>("steps", steps);
  }
  return all;
}

TEST(GpuVariables, AreUpdatedInPlace) {
  ThreadPool pool(2);
  const auto cpu = make_cpu_backend(pool, Target::kReference);
  const std::vector<float> found = results(*cpu, false);
  const auto at = [&](size_t i) { return found.at(i); };
  EXPECT_EQ(at(0), -3 * 2);
  EXPECT_EQ(at(6), 3 * 3);
  // sums[0] + sums[2], before and after the factors.
  constexpr size_t kAfter = 2 * kColumns, kSums = kAfter + kCount * kColumns;
  EXPECT_EQ(at(kSums), 1 + 11);
  EXPECT_EQ(at(kSums + 14), 15 + 10);
  EXPECT_EQ(at(kAfter + 14), (15 + 10) * 6);
  constexpr size_t kSteps = kSums + kCount * kColumns, kRound = kSteps + 1 + kColumns;
  EXPECT_EQ(at(kSteps), 1 << 24);  // 2^24 + 1 is no f32
  EXPECT_EQ(at(kRound), 100 - 3 * 2);
  EXPECT_EQ(at(kRound + kSums), 12 + (11 + 6));
  EXPECT_EQ(at(kRound + kSteps), 42);
  EXPECT_EQ(at(kRound + kSteps + 1), f32_to_bf16(50));
}

TEST(GpuVariables, HaveTheSameElementsOnEveryBackend) {
  ThreadPool pool(2);
  const auto cpu = make_cpu_backend(pool, Target::kReference);
  const std::vector<float> expected = results(*cpu, false);
  EXPECT_EQ(results(*cpu, true), expected);
  EXPECT_EQ(results(*make_cpu_backend(pool, supported_targets().front()), true), expected);
  for (const bool fused : {false, true}) {
    const auto emulator = gpu::make_backend(gpu::make_emulator());
    EXPECT_EQ(results(*emulator, fused), expected);
    metal::FakeGpu gpu;
    const auto metal =
        gpu::make_backend(metal::make_machine(metal::make_fake(gpu), metal::kShaders, 1));
    EXPECT_EQ(results(*metal, fused), expected);
    EXPECT_EQ(gpu.faults, "");
  }
}

}  // namespace
}  // namespace veery
