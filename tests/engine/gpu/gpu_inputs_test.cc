// A new input needs only a declaration: graphs with inputs of their own, of all types, give the
// same results on the CPU and on the emulator, with the CUDA and the Metal kernels.
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "array/array.h"
#include "base/random.h"
#include "kernels/cpu/backend/cpu_backend.h"
#include "kernels/gpu/gpu.h"
#include "kernels/metal/machine.h"
#include "kernels/metal/metal.h"
#include "plan/plan.h"
#include "support/fake_metal.h"
#include "support/gpu_machine.h"

namespace veery {
namespace {

constexpr int kRows = 5, kColumns = 8, kTopics = 7;

/// Selects rows of a table by an input, multiplies them by another one, and adds casts of three
/// more. No model has these inputs.
struct InputGraph {
  InputGraph() {
    const Array topic = input(graph, "topic", {Symbol::kRows, 1}, {DType::kI32});
    const Array weight = input(graph, "weight", {Symbol::kRows, 1});
    const Array pixels = input(graph, "pixels", {Symbol::kRows, kColumns}, {DType::kU8});
    const Array half = input(graph, "half", {Symbol::kRows, kColumns}, {DType::kF16});
    const Array brain = input(graph, "brain", {Symbol::kRows, 2 * kColumns}, {DType::kBF16});
    const Array table = constant(graph, {kTopics, kColumns}, 2);
    const Array row = embed(topic, table);
    y = row * weight + cast(pixels, DType::kF32) + cast(half, DType::kF32) +
        columns(cast(brain, DType::kF32), kColumns, kColumns) +
        cast(topic_times(topic), DType::kF32);
    rounded = cast(y, DType::kU8);
  }
  // i32 columns, from f32.
  static Array topic_times(Array topic) {
    const Array wide = cast(topic, DType::kF32);
    const Array factors = constant(topic.graph(), {1, kColumns}, 1.75F);
    return cast(concat(concat(concat(wide, wide), concat(wide, wide)),
                       concat(concat(wide, wide), concat(wide, wide))) *
                    factors,
                DType::kI32);
  }

  Graph graph;
  Array y, rounded;
};

void fill(RunBlock& block) {
  Random random(11);
  for (int32_t& id : block.input<int32_t>("topic"))
    id = static_cast<int32_t>(random.next() % kTopics);
  for (float& x : block.input<float>("weight")) x = random.normal();
  for (uint8_t& x : block.input<uint8_t>("pixels")) x = static_cast<uint8_t>(random.next());
  for (uint16_t& x : block.input<uint16_t>("half")) x = f32_to_f16(random.normal());
  for (uint16_t& x : block.input<uint16_t>("brain")) x = f32_to_bf16(random.normal());
}

/// Returns the bytes of both results, of two runs with different inputs.
std::vector<std::byte> results(Backend* backend, int32_t rows) {
  InputGraph g;
  RunBlock block(g.graph, kRows);
  fill(block);
  block.add_span(0, rows, 3);
  block.shape.sequences = 1;
  ThreadPool pool(2);
  const auto cpu = make_cpu_backend(pool, Target::kReference);
  ParamStore params;
  Plan plan(g.graph, {g.y.value(), g.rounded.value()},
            {.places = {{backend != nullptr ? backend : cpu.get(), &params}}, .block = &block},
            {.rows = kRows, .fuse = false});
  std::vector<std::byte> all;
  for (int round = 0; round < 2; ++round) {  // the second with other values
    plan.run();
    for (size_t i = 0; i < 2; ++i)
      for (int64_t r = 0; r < rows; ++r) {
        const auto* row = plan.root(i).row<std::byte>(r);
        all.insert(all.end(), row, row + byte_size(plan.root(i).dtype, kColumns));
      }
    block.input<int32_t>("topic")[0] = 6;
    block.input<float>("weight")[1] = 100;
  }
  return all;
}

TEST(GpuInputs, OfAllTypesGiveTheResultsOfTheCpu) {
  for (const int32_t rows : {1, 3, kRows}) {
    const std::vector<std::byte> expected = results(nullptr, rows);
    const auto emulator = gpu::make_backend(gpu::make_emulator());
    EXPECT_EQ(results(emulator.get(), rows), expected) << rows;
    metal::FakeGpu gpu;
    const auto metal =
        gpu::make_backend(metal::make_machine(metal::make_fake(gpu), metal::kShaders, 1));
    EXPECT_EQ(results(metal.get(), rows), expected) << rows;
    EXPECT_EQ(gpu.faults, "");
  }
}

TEST(GpuInputs, AnInputWithoutAdvancePreventsChains) {
  for (const Advance advance : {Advance::kNone, Advance::kSame}) {
    Graph graph;
    const Array tokens = input(graph, "tokens", {Symbol::kRows, 1}, {DType::kI32, Advance::kToken});
    const Array bias = input(graph, "bias", {Symbol::kRows, kColumns}, {DType::kF32, advance});
    const Array table = constant(graph, {kColumns, kColumns}, 1);
    const Array picked = select_rows(
        embed(tokens, table) + bias,
        input(graph, "output_rows", {Symbol::kOutputs, 1}, {DType::kI32, Advance::kSame}));
    const Array best = argmax(picked);
    RunBlock block(graph, 1);
    block.input<float>("bias")[4] = 1;
    block.add_span(0, 1, 0);
    block.add_output(0);
    block.shape.sequences = 1;
    ParamStore params;
    const auto backend = gpu::make_backend(gpu::make_emulator());
    Plan plan(graph, {best.value()}, {.places = {{backend.get(), &params}}, .block = &block}, {});
    EXPECT_EQ(plan.chain_steps() > 0, advance == Advance::kSame);
    if (advance == Advance::kNone) continue;
    ChainRow row;
    row.most = 3;
    plan.run_chain({&row, 1});
    EXPECT_EQ(std::vector<int32_t>(plan.chosen(0).begin(), plan.chosen(0).end()),
              (std::vector<int32_t>{4, 4, 4}));
  }
}

}  // namespace
}  // namespace veery
