// Times of table entries measured on the device, and peak rates.
#include <gtest/gtest.h>

#include <cmath>
#include <numeric>

#include "engine/sequence_reader.h"
#include "kernels/cuda/machine.h"
#include "support/cuda/fake_cuda.h"
#include "support/fake_metal.h"
#include "support/gpu_machine.h"
#include "support/small_model.h"

namespace veery {
namespace {

using test::SmallModel;
using test::some_ids;

LoadOptions options_on(std::shared_ptr<Backend> backend) {
  LoadOptions options;
  options.threads = 1;
  options.chunk = 8;
  if (backend) options.backends = {std::move(backend)};
  return options;
}

// A launch takes a millisecond on the fake driver's clock, so the time of a table entry is its
// number of launches.
TEST(CudaProfile, TimesEachRowOfATable) {
  const SmallModel model(DType::kQ8_0);
  const auto ids = some_ids(12);
  const cuda::Driver& driver = cuda::fake_driver();
  cuda::FakeState& state = cuda::fake_state();
  state.ticks = true;
  {
    Model of(model.path(), options_on(gpu::make_backend(cuda::make_machine(driver, {}, 0))));
    SequenceReader reader(of);
    for (const size_t rows : {1, 3}) {
      reader.clear();
      reader.feed(ids);
      reader.feed(std::span(ids).first(rows));
      Plan& plan = reader.plan(static_cast<int64_t>(rows));
      std::vector<double> seconds;
      const int before = state.launches;
      plan.run_profiled(seconds);
      const int launches = state.launches - before;
      ASSERT_EQ(seconds.size(), plan.table().size());
      EXPECT_NEAR(std::accumulate(seconds.begin(), seconds.end(), 0.0), 1e-3 * launches, 1e-9);
      for (size_t i = 0; i < seconds.size(); ++i) {
        // With one row, attention computes its queries itself. With several rows, a separate
        // launch quantises x.
        const std::string_view op = plan.labels()[i].op;
        const bool joined = rows == 1 && op == "qkv_rope";
        EXPECT_GT(seconds[i], joined ? -1e-9 : 0.9e-3) << op;
        const bool many = rows > 1 && plan.table()[i].out().rows == kTokenRows;
        const bool linear = op == "linear" || op == "fused_linear";
        const double alone = joined ? 0 : linear && many ? 2e-3 : 1e-3;
        if (linear || op == "qkv_rope") {
          EXPECT_NEAR(seconds[i], alone, 1e-9) << op;
        }
      }
      const std::vector<double> once = seconds;
      plan.run_profiled(seconds);
      for (size_t i = 0; i < seconds.size(); ++i) EXPECT_NEAR(seconds[i], 2 * once[i], 1e-9);
    }
    EXPECT_GT(state.events, 0);
  }
  EXPECT_EQ(state.events, 0);
  EXPECT_EQ(state.graphs, 0);
}

// Each table entry is a separate run of commands; a run takes a millisecond plus one per command.
TEST(MetalProfile, TimesEachRowOfATable) {
  const SmallModel model(DType::kQ8_0);
  const auto ids = some_ids(12);
  metal::FakeGpu gpu;
  {
    Model of(model.path(), options_on(metal::make_fake_backend(gpu)));
    gpu.command_seconds = 1e-3;
    SequenceReader reader(of);
    for (const size_t rows : {1, 3}) {
      reader.clear();
      reader.feed(ids);
      reader.feed(std::span(ids).first(rows));
      Plan& plan = reader.plan(static_cast<int64_t>(rows));
      std::vector<double> seconds;
      const int before = gpu.runs;
      plan.run_profiled(seconds);
      const size_t count = plan.table().size();
      ASSERT_EQ(seconds.size(), count);
      EXPECT_EQ(gpu.runs - before, static_cast<int>(count));
      EXPECT_NEAR(std::accumulate(seconds.begin(), seconds.end(), 0.0),
                  1e-3 * static_cast<double>(gpu.commands.size() + count), 1e-9);
      for (size_t i = 0; i < count; ++i) {
        // A separate command quantises x, and another one merges the argmax of the head.
        const std::string_view op = plan.labels()[i].op;
        EXPECT_GT(seconds[i], 1.9e-3) << op;
        const bool linear = op == "linear" || op == "fused_linear";
        if (linear || op == "rms_norm") {
          EXPECT_NEAR(seconds[i], linear ? 3e-3 : 2e-3, 1e-9) << op;
        }
      }
      const std::vector<double> once = seconds;
      plan.run_profiled(seconds);
      for (size_t i = 0; i < count; ++i) EXPECT_NEAR(seconds[i], 2 * once[i], 1e-9);
    }
  }
  EXPECT_EQ(gpu.faults, "");
  EXPECT_EQ(gpu.encoded, 0);
}

TEST(MetalProfile, LimitsAreOperationsAndBytesOverTime) {
  metal::FakeGpu gpu;
  const auto backend = metal::make_fake_backend(gpu);
  gpu.command_seconds = 1e-3;
  const Memory first = backend->device().allocate(4096), second = backend->device().allocate(100);
  const std::array<MemoryPiece, 2> weights = {
      {{first.data(), first.size()}, {second.data(), second.size()}}};
  const PeakRates rates = backend->peak_rates(weights);
  EXPECT_DOUBLE_EQ(rates.least, 2e-3);
  EXPECT_DOUBLE_EQ(rates.memory, (4096 + 96) / 2e-3);
  // 2 processors with 2 blocks of 8 warps each, 64 turns; bf16 is multiplied as f32.
  EXPECT_DOUBLE_EQ(rates.f32, 4.0 * 8 * 64 * (32 * 8 * 2) / 2e-3);
  EXPECT_DOUBLE_EQ(rates.bf16, rates.f32);
  EXPECT_DOUBLE_EQ(rates.int8, 4.0 * 8 * 64 * (4 * 16 * 32 * 8 * 2) / 2e-3);
  EXPECT_EQ(gpu.faults, "");
}

TEST(MetalProfile, FaultsAreErrors) {
  const SmallModel model(DType::kQ8_0);
  metal::FakeGpu gpu;
  Model of(model.path(), options_on(metal::make_fake_backend(gpu)));
  SequenceReader reader(of);
  reader.feed(some_ids(1));
  gpu.fail_run = gpu.runs + 2;
  std::vector<double> seconds;
  try {
    reader.plan(1).run_profiled(seconds);
    ADD_FAILURE() << "nothing failed";
  } catch (const Error& error) {
    EXPECT_EQ(std::string(error.what()), "metal: a run: the GPU was reset");
  }
}

// Decoding after a profile gives the same tokens as without it.
TEST(GpuProfile, LeavesTheSequenceAsItWas) {
  const SmallModel model(DType::kQ4_K);
  const auto ids = some_ids(12);
  const auto last_logits = [&](const std::shared_ptr<Backend>& backend, bool profiled) {
    Model of(model.path(), options_on(backend));
    SequenceReader reader(of);
    reader.feed(std::span(ids).first(11));
    if (profiled) {
      std::vector<double> seconds;
      reader.feed(std::span(ids).subspan(11, 1));
      reader.plan(1).run_profiled(seconds);
      for (const double of_row : seconds) EXPECT_GT(of_row, 0);
      reader.plan(1).run();
      return std::vector<float>(reader.logits().begin(), reader.logits().end());
    }
    reader.feed(std::span(ids).subspan(11, 1));
    return std::vector<float>(reader.logits().begin(), reader.logits().end());
  };
  EXPECT_EQ(last_logits(gpu::make_backend(cuda::make_machine(cuda::fake_driver(), {}, 0)), true),
            last_logits(nullptr, false));
  metal::FakeGpu gpu;
  EXPECT_EQ(last_logits(metal::make_fake_backend(gpu), true), last_logits(nullptr, false));
}

TEST(CudaProfile, LimitsAreOperationsAndBytesOverTime) {
  const cuda::Driver& driver = cuda::fake_driver();
  cuda::fake_state().ticks = true;
  const auto backend = gpu::make_backend(cuda::make_machine(driver, {}, 0));
  const Memory first = backend->device().allocate(4096), second = backend->device().allocate(100);
  const std::array<MemoryPiece, 2> weights = {
      {{first.data(), first.size()}, {second.data(), second.size()}}};
  const PeakRates rates = backend->peak_rates(weights);
  EXPECT_DOUBLE_EQ(rates.least, 1e-3);
  EXPECT_DOUBLE_EQ(rates.memory, (4096 + 96) / 1e-3);
  // 2 multiprocessors with 2 blocks of 8 warps each, 64 turns in the millisecond of a launch.
  EXPECT_DOUBLE_EQ(rates.f32, 4.0 * 8 * 64 * (32 * 8 * 2) / 1e-3);
  EXPECT_DOUBLE_EQ(rates.bf16, 4.0 * 8 * 64 * (4 * 16 * 16 * 8 * 2) / 1e-3);
  EXPECT_DOUBLE_EQ(rates.int8, 4.0 * 8 * 64 * (4 * 16 * 32 * 8 * 2) / 1e-3);
  EXPECT_EQ(backend->peak_rates({}).memory, 0);
  EXPECT_EQ(cuda::fake_state().events, 0);
}

TEST(GpuProfile, IsRefusedIfRowsCannotBeTimed) {
  const SmallModel model(DType::kQ8_0);
  Model of(model.path(), options_on(gpu::make_backend(gpu::make_emulator())));
  SequenceReader reader(of);
  reader.feed(some_ids(1));
  std::vector<double> seconds;
  try {
    reader.plan(1).run_profiled(seconds);
    ADD_FAILURE() << "nothing was refused";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kUnsupported);
    EXPECT_EQ(std::string(error.what()), "emulator: the device cannot time the steps of a plan");
  }
}

}  // namespace
}  // namespace veery
