// Small models on the GPU emulator: the bits of the CPU for each weight layout except bf16, which
// has its own order.
#include <gtest/gtest.h>

#include <algorithm>

#include "engine/session.h"
#include "kernels/cuda/machine.h"
#include "kernels/gpu/smem/gemm_skinny_smem.h"
#include "kernels/gpu/smem/gemm_wgmma_smem.h"
#include "support/cuda/fake_cuda.h"
#include "support/gpu_machine.h"
#include "support/near_rows.h"
#include "support/one_sequence.h"
#include "support/sanitized.h"
#include "support/small_model.h"

namespace veery {
namespace {

using test::all_logits;
using test::Rows;
using test::SmallModel;
using test::some_ids;

enum class On { kCpu, kGpu };
std::vector<std::shared_ptr<Backend>> backends_for(On on) {
  if (on == On::kCpu) return {};
  return {gpu::make_backend(gpu::make_emulator())};
}
LoadOptions options_for(On on, int32_t chunk) {
  LoadOptions options;
  options.threads = 1;
  options.chunk = chunk;
  options.backends = backends_for(on);
  return options;
}

// Returns the logits expected for any prefill chunk: those of the CPU; for bf16 those of the whole
// prompt on the GPU, which must be close to the CPU.
Rows expected_logits(const std::string& path, DType type, std::span<const int32_t> ids) {
  const Rows of_cpu = all_logits(path, options_for(On::kCpu, 64), ids);
  if (type != DType::kBF16) return of_cpu;
  Rows own = all_logits(path, options_for(On::kGpu, 64), ids);
  EXPECT_LT(test::distance(own, of_cpu), test::kNear);
  return own;
}

class Gpu : public ::testing::TestWithParam<DType> {};

// With sanitizers, only one type per multiplication kernel is tested.
bool is_tested(DType type) {
  return !test::kSanitized || type == DType::kQ8_0 || type == DType::kQ4_1 ||
         type == DType::kQ4_K || type == DType::kBF16;
}

TEST_P(Gpu, LogitsHaveTheBitsOfTheCpuInAnyChunk) {
  if (!is_tested(GetParam())) return;
  const SmallModel model(GetParam());
  // One row, few rows, small and large tiles of rows.
  const auto ids = some_ids(37);
  const Rows expected = expected_logits(model.path(), GetParam(), ids);
  for (const auto& [chunk, count] :
       {std::pair(1, 2), std::pair(3, 3), std::pair(64, 10), std::pair(64, 37)})
    EXPECT_EQ(all_logits(model.path(), options_for(On::kGpu, chunk), std::span(ids).first(count)),
              Rows(expected.begin(), expected.begin() + count))
        << chunk;
}

INSTANTIATE_TEST_SUITE_P(Weights, Gpu,
                         ::testing::Values(DType::kQ8_0, DType::kQ4_0, DType::kQ4_1, DType::kQ5_1,
                                           DType::kQ4_K, DType::kQ5_K, DType::kQ6_K, DType::kQ2_K,
                                           DType::kIQ4_XS, DType::kMXFP4, DType::kNVFP4,
                                           DType::kF32, DType::kF16, DType::kBF16),
                         [](const auto& of) { return std::string(veery::info(of.param).name); });

// The number of chunks in shared memory must cover the warps that run ahead of each other, for any
// size of shared memory.
TEST(GpuWide, GroupsHaveChunksForAllWarps) {
  for (int format = gpu::kQ8; format <= gpu::kBF16; ++format)
    for (const bool many : {false, true})
      for (const int room : {48 << 10, 99 << 10, 163 << 10, 227 << 10})
        for (int cols = 256; cols <= 32768; cols *= 2) {
          const auto plan =
              gpu::gemm_skinny_smem(static_cast<gpu::WeightFormat>(format), many, cols, room);
          if (plan.stages < gpu::GemmSkinnySmem::kMinStages) continue;
          EXPECT_GE(plan.chunks, plan.warps) << format << " " << room;
          EXPECT_LE(plan.bytes, room) << format;
          EXPECT_EQ((plan.ring | plan.tile_bytes | plan.chunks_at | plan.chunk_bytes) % 16, 0);
          EXPECT_EQ((plan.mbarriers | plan.chunk_mbarriers | plan.best) % 8, 0);
        }
  // With the shared memory of an H100 all formats fit.
  for (int format = gpu::kQ8; format <= gpu::kBF16; ++format)
    EXPECT_GE(gpu::gemm_skinny_smem(static_cast<gpu::WeightFormat>(format), true, 14336, 227 << 10)
                  .stages,
              gpu::GemmSkinnySmem::kMinStages);
}

// Rows so wide that a product takes several rounds, the last one incomplete (GemvSmem), and more
// chunks than are in flight at a time (GemmSkinnySmem).
TEST(GpuWide, RowsOfSeveralRoundsHaveTheBitsOfTheCpu) {
  for (const auto& [type, hidden] : {std::pair(DType::kQ8_0, 2304), std::pair(DType::kQ4_1, 2304),
                                     std::pair(DType::kNVFP4, 2304), std::pair(DType::kQ4_K, 8448),
                                     std::pair(DType::kQ6_K, 8448)}) {
    if (test::kSanitized && type != DType::kQ8_0) continue;
    const SmallModel model(type, false, hidden);
    const auto ids = some_ids(12);
    const Rows expected = all_logits(model.path(), options_for(On::kCpu, 12), ids);
    const Rows first(expected.begin(), expected.begin() + 2);
    EXPECT_EQ(all_logits(model.path(), options_for(On::kGpu, 1), std::span(ids).first(2)), first)
        << info(type).name;
    // One group of rows, and two (GemmSkinnySmem).
    for (const int32_t chunk : {4, 12})
      EXPECT_EQ(all_logits(model.path(), options_for(On::kGpu, chunk), ids), expected)
          << info(type).name << " " << chunk;
    // One group, without room for more warps.
    if (type != DType::kQ4_K) continue;
    static_assert(gpu::gemm_skinny_smem(gpu::kK4M, false, 8448, 163 << 10).warps ==
                  gpu::GemmSkinnySmem::kWarps);
    LoadOptions options = options_for(On::kGpu, 4);
    options.backends = {gpu::make_backend(gpu::make_emulator(163 << 10))};
    EXPECT_EQ(all_logits(model.path(), options, ids), expected) << info(type).name;
  }
}

// More than 16 rows are multiplied by wgmma if its stages fit into shared memory, otherwise by mma;
// the last tiles of rows and of panels are incomplete. On 64 SMs products are split-K, on 2 SMs
// they are not.
TEST(GpuWide, ManyRowsHaveTheBitsOfTheCpu) {
  static_assert(gpu::GemmWgmmaInt8Smem::kBytes > 128 << 10);
  for (const auto& [type, hidden] : {std::pair(DType::kQ4_K, 2304), std::pair(DType::kQ4_K, 256),
                                     std::pair(DType::kQ5_K, 256)}) {
    if (test::kSanitized && hidden > 256) continue;
    const SmallModel model(type, false, hidden);
    const auto ids = some_ids(150);
    LoadOptions options = options_for(On::kCpu, 150);
    const Rows expected = all_logits(model.path(), options, ids);
    EXPECT_EQ(all_logits(model.path(), options_for(On::kGpu, 150), ids), expected)
        << info(type).name << hidden;
    for (const auto& [room, sm_count] : {std::pair(128, 2), std::pair(227, 64)}) {
      options.backends = {gpu::make_backend(gpu::make_emulator(room << 10, sm_count))};
      EXPECT_EQ(all_logits(model.path(), options, ids), expected)
          << info(type).name << hidden << " " << room;
    }
    // One row more than a split-K tile has.
    options.chunk = 33;
    EXPECT_EQ(all_logits(model.path(), options, std::span(ids).first(33)),
              Rows(expected.begin(), expected.begin() + 33))
        << info(type).name << hidden;
  }
}

// bf16: a round is a piece of 256 columns. Prefill has the same bits, and greedy tokens are those
// with the largest logits.
TEST(GpuBf16, RowsOfSeveralPiecesHaveTheBitsOfPrompts) {
  for (const int experts : {0, 5}) {
    const SmallModel model(DType::kBF16, /*tied=*/true, experts > 0 ? 336 : 2320, experts);
    const auto ids = some_ids(80);
    const Rows expected = expected_logits(model.path(), DType::kBF16, ids);
    const auto first = [&](size_t count) {
      return Rows(expected.begin(), expected.begin() + static_cast<std::ptrdiff_t>(count));
    };
    // Two rows, and those of large tiles: more than 64.
    for (const auto& [chunk, count] : {std::pair(1, 2), std::pair(2, 2), std::pair(80, 80)})
      EXPECT_EQ(all_logits(model.path(), options_for(On::kGpu, chunk),
                           std::span(ids).first(static_cast<size_t>(count))),
                first(static_cast<size_t>(count)))
          << chunk << " " << experts;
    // With little shared memory.
    LoadOptions options = options_for(On::kCpu, 2);
    options.backends = {gpu::make_backend(gpu::make_emulator(48 << 10))};
    EXPECT_EQ(all_logits(model.path(), options, std::span(ids).first(3)), first(3)) << experts;

    Model of(model.path(), options_for(On::kGpu, 80));
    test::OneSequence session(of);
    session.feed(std::span(ids).first(79));
    std::vector<int32_t> made(2);
    session.decode_greedy(ids[79], made);
    std::vector<int32_t> all(ids);
    all.push_back(made[0]);
    const Rows rows = all_logits(model.path(), options_for(On::kGpu, 64), all);
    for (size_t i = 0; i < 2; ++i)
      EXPECT_EQ(made[i], std::ranges::max_element(rows[79 + i]) - rows[79 + i].begin());
  }
}

// If x and the rings of weights do not fit into shared memory, other kernels are chosen.
TEST(GpuWide, RowsWithoutRoomHaveTheBitsOfTheCpu) {
  for (const auto& [type, experts] :
       {std::pair(DType::kQ8_0, 0), std::pair(DType::kQ4_K, 0), std::pair(DType::kQ8_0, 5)}) {
    if (test::kSanitized && type != DType::kQ8_0) continue;
    const SmallModel model(type, false, 256, experts);
    const auto ids = some_ids(2);
    LoadOptions options = options_for(On::kCpu, 1);
    const Rows expected = all_logits(model.path(), options, ids);
    options.backends = {gpu::make_backend(gpu::make_emulator(48 << 10))};
    EXPECT_EQ(all_logits(model.path(), options, ids), expected) << info(type).name << experts;
  }
}

// Single pairs of row and expert, small groups and large groups.
TEST_P(Gpu, ExpertsHaveTheBitsOfTheCpuInAnyChunk) {
  if (!is_tested(GetParam())) return;
  const SmallModel model(GetParam(), false, 256, 5);
  const auto ids = some_ids(31);
  const Rows expected = expected_logits(model.path(), GetParam(), ids);
  for (const auto& [chunk, count] :
       {std::pair(1, 2), std::pair(3, 3), std::pair(64, 24), std::pair(64, 31)})
    EXPECT_EQ(all_logits(model.path(), options_for(On::kGpu, chunk), std::span(ids).first(count)),
              Rows(expected.begin(), expected.begin() + count))
        << chunk;
}

// Two layers, and positions in several KV blocks of 128, from the cache and from the run itself.
TEST(GpuAttention, HasTheBitsOfTheCpuOverSeveralBlocks) {
  const SmallModel model(DType::kQ8_0, false, test::kHidden, 0, 2);
  const auto ids = some_ids(270);
  for (const DType cache : {DType::kBF16, DType::kF16, DType::kF32}) {
    if (test::kSanitized && cache != DType::kBF16) continue;
    LoadOptions options = options_for(On::kCpu, 266);
    options.cache_keys = options.cache_values = cache;
    const auto last = [&](On on) {
      options.backends = backends_for(on);
      Model of(model.path(), options);
      test::OneSequence session(of);
      session.feed(std::span(ids).first(266));
      Rows rows;
      rows.emplace_back(session.logits().begin(), session.logits().end());
      session.feed(std::span(ids).subspan(266, 1));
      rows.emplace_back(session.logits().begin(), session.logits().end());
      return rows;
    };
    const Rows expected = last(On::kCpu);
    EXPECT_EQ(last(On::kGpu), expected) << info(cache).name;
  }
}

// Rows of several sequences whose positions are split over thread blocks: three KV blocks over two
// thread blocks, and one thread block each.
TEST(GpuAttention, FewRowsShareOutTheirPositions) {
  const SmallModel model(DType::kQ8_0);
  const auto ids = some_ids(270);
  const std::span all(ids);
  const auto logits = [&](std::shared_ptr<Backend> backend) {
    LoadOptions options = options_for(On::kCpu, 262);
    if (backend) options.backends = {std::move(backend)};
    Model of(model.path(), options);
    Session runner(of, {.sequences = 3});
    const int32_t first = runner.open(), second = runner.open(), third = runner.open();
    for (const RunPart& part :
         {RunPart{first, all.first(262), 1}, RunPart{second, all.first(131), 1},
          RunPart{third, all.first(20), 1}})
      runner.run({&part, 1});
    const RunPart parts[] = {{first, all.subspan(262, 3), 3},
                             {second, all.subspan(3, 2), 2},
                             {third, all.subspan(9, 1), 1}};
    runner.run(parts);
    Rows rows;
    for (int i = 0; i < 6; ++i) rows.emplace_back(runner.logits(i).begin(), runner.logits(i).end());
    return rows;
  };
  const Rows expected = logits(nullptr);
  for (const int sm_count : {2, 8, 132})
    EXPECT_EQ(logits(gpu::make_backend(gpu::make_emulator(227 << 10, sm_count))), expected)
        << sm_count;
}

// Prefill and decode steps of several sequences in one run, and a sequence that reuses the slot of
// another.
TEST(GpuSequences, GiveTheBitsOfTheCpuTogether) {
  const SmallModel model(DType::kF32);
  const auto ids = some_ids(40);
  const auto logits = [&](On on) {
    Model of(model.path(), options_for(on, 64));
    Session runner(of, {.sequences = 3});
    const int32_t first = runner.open(), second = runner.open();
    Rows rows;
    const auto run = [&](std::initializer_list<RunPart> parts) {
      runner.run(parts);
      int32_t output = 0;
      for (const RunPart& part : parts)
        for (int32_t i = 0; i < part.outputs; ++i) {
          const auto row = runner.logits(output++);
          rows.emplace_back(row.begin(), row.end());
        }
    };
    const std::span all(ids);
    run({{first, all.first(9), 2}});
    run({{first, all.subspan(9, 1), 1}, {second, all.subspan(20, 7), 1}});
    const int32_t third = runner.fork(first, 6);
    run({{third, all.subspan(30, 3), 3},
         {first, all.subspan(10, 1), 1},
         {second, all.first(1), 1}});
    return rows;
  };
  EXPECT_EQ(logits(On::kGpu), logits(On::kCpu));
}

// Prefill attention skips tiles in which one sequence ends and another begins; attend_ragged()
// processes their rows.
TEST(GpuSequences, RowsThatTilesLeaveHaveTheBitsOfTheCpu) {
  const SmallModel model(DType::kQ8_0);
  const auto ids = some_ids(140);
  const auto logits = [&](On on) {
    Model of(model.path(), options_for(on, 140));
    Session runner(of, {.sequences = 3});
    const int32_t sequences[] = {runner.open(), runner.open(), runner.open()};
    const std::span all(ids);
    runner.run(std::initializer_list<RunPart>{{sequences[0], all.first(70), 70},
                                              {sequences[1], all.subspan(70, 33), 33},
                                              {sequences[2], all.subspan(103, 37), 37}});
    Rows rows;
    for (int32_t i = 0; i < 140; ++i) {
      const auto row = runner.logits(i);
      rows.emplace_back(row.begin(), row.end());
    }
    return rows;
  };
  EXPECT_EQ(logits(On::kGpu), logits(On::kCpu));
}

TEST(GpuDecode, ChoosesTheTokensOfTheCpu) {
  for (const DType type : {DType::kQ8_0, DType::kF32}) {
    const SmallModel model(type, /*tied=*/true);
    const auto tokens = [&](On on) {
      Model of(model.path(), options_for(on, 64));
      test::OneSequence session(of);
      session.feed(some_ids(3));
      std::vector<int32_t> made(3);
      session.decode_greedy(7, made);
      return made;
    };
    const auto expected = tokens(On::kCpu);
    EXPECT_EQ(tokens(On::kGpu), expected) << info(type).name;
  }
}

// Chained decode gives the tokens of single steps, and later steps see all that it wrote.
TEST(GpuDecode, AChainOfStepsIsThoseSteps) {
  const SmallModel model(DType::kQ8_0);
  const auto ids = some_ids(12);
  const auto tokens = [&](On on, bool chained) {
    Model of(model.path(), options_for(on, 16));
    Session runner(of, {.sequences = 3});
    std::vector<std::vector<int32_t>> made;
    std::vector<RunPart> parts;
    for (const int count : {5, 1, 12}) {
      parts.push_back(
          {runner.open(), std::span(ids).first(static_cast<size_t>(count)), 1, Wants::kBest});
      runner.run({&parts.back(), 1});
      made.push_back({runner.best(0)});
    }
    const auto step = [&](int32_t times) {
      for (size_t i = 0; i < parts.size(); ++i) parts[i].ids = std::span(made[i]).last(1);
      EXPECT_EQ(runner.chain_steps(parts, false), on == On::kCpu ? 0 : 128);
      const std::vector<ChainRow> rows(parts.size(), {.most = times});
      if (times > 1)
        runner.run_chain(parts, rows);
      else
        runner.run(parts);
      for (size_t i = 0; i < parts.size(); ++i)
        for (int32_t t = 0; t < times; ++t)
          made[i].push_back(runner.best(static_cast<int32_t>(i) * times + t));
    };
    for (const int32_t times : {7, 1, 2, 8}) {
      if (chained)
        step(times);
      else
        for (int32_t i = 0; i < times; ++i) step(1);
    }
    return made;
  };
  const auto expected = tokens(On::kCpu, false);
  EXPECT_EQ(tokens(On::kGpu, true), expected);
  EXPECT_EQ(tokens(On::kGpu, false), expected);
}

TEST(GpuDecode, AChainStaysWithinTheContext) {
  const SmallModel model(DType::kQ8_0);
  const auto ids = some_ids(9);
  const auto tokens = [&](On on) {
    LoadOptions options = options_for(on, 16);
    options.context = 24;
    Model of(model.path(), options);
    Session runner(of);
    RunPart part{runner.open(), ids, 1, Wants::kBest};
    runner.run({&part, 1});
    std::vector<int32_t> made = {runner.best(0)};
    while (runner.position(part.sequence) < options.context) {
      part.ids = std::span(made).last(1);
      const ChainRow row{.most = options.context - runner.position(part.sequence)};
      if (on != On::kCpu) {
        const ChainRow longer{.most = row.most + 1};
        EXPECT_THROW(runner.run_chain({&part, 1}, {&longer, 1}), Error);
        runner.run_chain({&part, 1}, {&row, 1});
        made.insert(made.end(), runner.chosen(0).begin(), runner.chosen(0).end());
      } else {
        runner.run({&part, 1});
        made.push_back(runner.best(0));
      }
    }
    return made;
  };
  const auto expected = tokens(On::kCpu);
  EXPECT_EQ(tokens(On::kGpu), expected);
}

// The host side of CUDA, with a fake driver that records calls.
TEST(Cuda, RunsPlansAsGraphsOfLaunches) {
  const SmallModel model(DType::kQ8_0);
  const auto ids = some_ids(6);
  const Rows expected = all_logits(model.path(), options_for(On::kCpu, 64), ids);
  LoadOptions options = options_for(On::kCpu, 3);
  const cuda::Driver& driver = cuda::fake_driver();
  options.backends = {gpu::make_backend(cuda::make_machine(driver, {}, 0))};
  EXPECT_EQ(all_logits(model.path(), options, ids), expected);
  options.backends.clear();
  const cuda::FakeState& state = cuda::fake_state();
  EXPECT_EQ(state.runs, 2);
  EXPECT_GT(state.launches, 20);
  EXPECT_EQ(state.early, state.launches / 2 - 1);  // all launches of a plan except its first
  EXPECT_EQ(state.graphs, 0);
  EXPECT_EQ(state.used, 0U);
}

// GPUs without wgmma multiply by mma.
TEST(Cuda, GpusWithoutWarpgroupsHaveTheSameBits) {
  for (const DType type : {DType::kQ4_K, DType::kBF16}) {
    const SmallModel model(type);
    const auto ids = some_ids(70);
    LoadOptions options = options_for(On::kCpu, 70);
    const Rows expected = expected_logits(model.path(), type, ids);
    for (const int major : {8, 9}) {
      const cuda::Driver& driver = cuda::fake_driver();
      cuda::fake_state().major = major;
      auto machine = cuda::make_machine(driver, {}, 0);
      EXPECT_EQ(machine->has(gpu::KernelId::gemm_wgmma_k4m), major == 9);
      EXPECT_EQ(machine->has(gpu::KernelId::gemm_wgmma_bf16), major == 9);
      options.backends = {gpu::make_backend(std::move(machine))};
      EXPECT_EQ(all_logits(model.path(), options, ids), expected) << info(type).name << major;
      options.backends.clear();
    }
  }
}

TEST(Cuda, FaultsOfTheDriverAreErrors) {
  const SmallModel model(DType::kQ8_0);
  const auto ids = some_ids(6);
  const auto message = [&](const auto& change) {
    LoadOptions options = options_for(On::kCpu, 3);
    const cuda::Driver& driver = cuda::fake_driver();
    change(cuda::fake_state());
    try {
      options.backends = {gpu::make_backend(cuda::make_machine(driver, {}, 0))};
      all_logits(model.path(), options, ids);
    } catch (const Error& error) {
      return std::string(error.what());
    }
    return std::string("nothing failed");
  };
  EXPECT_EQ(message([](cuda::FakeState& state) { state.major = 7; }),
            "cuda:0: fake has compute capability 7.x, expected 8.0 or more");
  EXPECT_EQ(message([](cuda::FakeState& state) { state.fail_run = 1; }),
            "cuda: launching a graph: a fault");
  const std::string full = message([](cuda::FakeState& state) { state.memory = 400'000; });
  EXPECT_NE(full.find("can be had"), std::string::npos) << full;
  EXPECT_EQ(cuda::fake_state().used, 0U);
  EXPECT_EQ(cuda::fake_state().graphs, 0);
}

// Running out of memory, at load or later, leaves process and machine unchanged. Memory in use is
// counted.
TEST(Cuda, MemoryIsCountedAndItsLimitHolds) {
  const SmallModel model(DType::kQ8_0);
  const auto ids = some_ids(6);
  LoadOptions options = options_for(On::kCpu, 6);
  options.backends = {gpu::make_backend(cuda::make_machine(cuda::fake_driver(), {}, 0))};
  MemoryPool& pool = *options.backends[0]->device().pool();
  {
    Model of(model.path(), options);
    const size_t weights = pool.memory().active;
    EXPECT_GT(weights, 1000U);
    test::OneSequence session(of);
    const size_t loaded = pool.memory().active;
    EXPECT_GT(loaded, weights) << "caches";
    pool.set_limit(loaded);
    EXPECT_THROW(session.feed(ids), Error) << "a plan needs memory";
    pool.set_limit(SIZE_MAX);
    session.feed(ids);
    EXPECT_GT(pool.memory().active, loaded);
    EXPECT_EQ(pool.memory().active, pool.memory().peak);
    EXPECT_EQ(cuda::fake_state().used, pool.memory().active);
  }
  EXPECT_EQ(pool.memory().active, 0U);
  pool.set_limit(1000);
  pool.reset_peak();
  try {
    Model refused(model.path(), options);
    ADD_FAILURE() << "the limit did not hold";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kLimit);
    EXPECT_NE(std::string(error.what()).find("cuda:0: the weights take"), std::string::npos)
        << error.what();
  }
  EXPECT_EQ(pool.memory().peak, 0U) << "known before anything is loaded";
  pool.set_limit(SIZE_MAX);
  EXPECT_EQ(all_logits(model.path(), options, ids),
            all_logits(model.path(), options_for(On::kCpu, 64), ids));
}

TEST(GpuRefusals, NameOpAndOperands) {
  // Weights that are not packed in panels.
  Dispatch d;
  d.in[FusedLinearIn::kX] = {.rows = 3, .cols = 64, .layout = Layout::kRowMajor};
  d.in[FusedLinearIn::kWeight] = {
      .rows = 8, .cols = 64, .dtype = DType::kQ8_0, .layout = Layout::kRowMajor};
  d.attr = FusedLinearAttr{.weights = 1};
  try {
    backends_for(On::kGpu).front()->choose(op::kFusedLinear, d, {.exact = true});
    ADD_FAILURE() << "nothing was refused";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kUnsupported);
    EXPECT_STREQ(
        error.what(),
        "fused_linear: no kernel on emulator for f32 3 x 64, q8_0 8 x 64 with exact products");
  }
}

}  // namespace
}  // namespace veery
