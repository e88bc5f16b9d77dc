// Recurrences and convolutions on the GPU emulator with the CUDA and the Metal kernels: the bits of
// the CPU, for each parameter and any split of a sequence into runs.
#include <gtest/gtest.h>

#include <cmath>

#include "kernels/gpu/gpu.h"
#include "kernels/recurrence_problem.h"
#include "support/run_on_gpu.h"
#include "support/sanitized.h"

namespace veery {
namespace {

using test::Blocks;
using test::Matrix;
using test::RunRows;
using test::ScanProblem;

using GpuScan = test::EachGpuDialect;
INSTANTIATE_TEST_SUITE_P(Each, GpuScan, test::gpu_dialects(), test::dialect_name);
using GpuConv1d = test::EachGpuDialect;
INSTANTIATE_TEST_SUITE_P(Each, GpuConv1d, test::gpu_dialects(), test::dialect_name);
using GpuSlstm = test::EachGpuDialect;
INSTANTIATE_TEST_SUITE_P(Each, GpuSlstm, test::gpu_dialects(), test::dialect_name);
using GpuLinearHeads = test::EachGpuDialect;
INSTANTIATE_TEST_SUITE_P(Each, GpuLinearHeads, test::gpu_dialects(), test::dialect_name);

test::RunScan scan_on(const test::GpuDialect& dialect) {
  return [&dialect](const std::vector<Operand>& in, const Operand& out, const Attr& attr,
                    const RunShape& shape) { dialect.run(op::kScan, in, out, attr, shape); };
}

constexpr int32_t kRows = 22;

// The problems of the CPU's tests, and one for each key size that has a kernel.
std::vector<ScanProblem> gpu_problems() {
  std::vector<ScanProblem> all = test::problems(kRows);
  all.push_back(test::problem("mamba2 128", {.map = HeadMap::kTiled}, kRows, {2, 1, 128, 20}));
  all.push_back(test::problem("delta 100", {.low_rank = LowRank::kDelta}, kRows, {1, 1, 100, 33}));
  all.push_back(test::problem("mlstm 260", {.exponential = true, .normaliser = true, .eps = 1e-6F},
                              kRows, {1, 1, 260, 18}));
  all.push_back(test::problem("kda 200", {.decay = Decay::kChannel, .low_rank = LowRank::kDelta},
                              kRows, {1, 1, 200, 16}));
  all.push_back(test::problem("rwkv 300", {.decay = Decay::kChannel, .low_rank = LowRank::kGeneral},
                              kRows, {1, 1, 300, 16}, true));
  all.push_back(test::problem("outer 20", {.decay = Decay::kOuter}, kRows, {2, 2, 20, 16}));
  all.push_back(test::problem("outer 70", {.decay = Decay::kOuter}, kRows, {2, 2, 70, 16}));
  return all;
}

TEST_P(GpuScan, HasTheBitsOfTheCpuInAnyRuns) {
  const Target target = supported_targets().front();
  for (const ScanProblem& p : gpu_problems()) {
    if (test::kSanitized && p.name != "rwkv7" && p.name != "mlstm") continue;
    const Matrix expected = test::in_runs(p, {kRows}, {target});
    const auto gpu = scan_on(GetParam());
    test::expect_same_bits(test::in_scans(p, {kRows}, gpu), expected, p.name.c_str());
    test::expect_same_bits(test::in_scans(p, {1, 1, 3, 8, 9}, gpu), expected, p.name.c_str());
    test::expect_same_bits(test::in_scans(p, {9, 2, 11}, gpu, 4), expected, p.name.c_str());
  }
}

// Stored states have the bits of the CPU, so that sequences can move between devices.
TEST_P(GpuScan, KeepsTheBlocksOfTheCpu) {
  for (const ScanProblem& p : gpu_problems()) {
    if (test::kSanitized && p.name != "rwkv7" && p.name != "mlstm") continue;
    const auto kept = [&](const test::RunScan& scan) {
      Blocks blocks = test::blocks_of(p, 2, 2);
      const test::ProblemRun run{p, scan, true, 2};
      Matrix result = run.out();
      RunRows rows;
      rows.add(1, 9, 0);
      rows.add(0, kRows - 9, 0);
      run.go(rows, 0, blocks, result);
      for (float& x : blocks.memory)
        if (std::isnan(x)) x = 0;  // NaN marks memory that the run did not write
      return blocks.memory;
    };
    EXPECT_EQ(kept(scan_on(GetParam())), kept(test::scan_with({supported_targets().front()})))
        << p.name;
  }
}

TEST_P(GpuScan, WithoutAStateSequencesBegin) {
  for (const ScanProblem& p : test::problems(kRows)) {
    const auto result = [&](const test::RunScan& scan) {
      Blocks blocks = test::blocks_of(p, 2);
      const test::ProblemRun run{p, scan, false};
      Matrix y = run.out();
      RunRows rows;
      rows.add(0, 13, 0);
      rows.add(1, kRows - 13, 0);
      run.go(rows, 0, blocks, y);
      return y;
    };
    test::expect_same_bits(result(scan_on(GetParam())),
                           result(test::scan_with({supported_targets().front()})), p.name.c_str());
  }
}

TEST_P(GpuScan, TooManyKeysAreRefused) {
  const ScanProblem p = test::problem("600", {}, 3, {1, 1, 600, 16});
  try {
    test::in_scans(p, {3}, scan_on(GetParam()));
    ADD_FAILURE() << "nothing was refused";
  } catch (const Error& error) {
    EXPECT_TRUE(std::string(error.what()).starts_with("scan: no kernel on ")) << error.what();
  }
}

// Processes two sequences in several runs, each with some rows of both.
template <typename Run>
Matrix in_two_sequences(const Matrix& x, int32_t width, const std::vector<int32_t>& sizes, int kept,
                        const Shape& block, const Run& run) {
  Matrix y(x.operand.rows, width);
  Blocks blocks(2, block, kept);
  int32_t at = 0, first = 0, second = 0;
  for (const int32_t size : sizes) {
    const int32_t own = (size + 1) / 2, other = size - own;
    RunRows rows;
    rows.add(1, own, first);
    if (other > 0) rows.add(0, other, second);
    Operand in = x.operand, out = y.operand;
    in.data += at * in.stride, out.data += at * out.stride;
    in.rows = out.rows = kTokenRows;
    run(in, out, blocks.operand, rows.shape(blocks));
    at += size, first += own, second += other;
  }
  return y;
}

TEST_P(GpuConv1d, HasTheBitsOfTheCpuInAnyRuns) {
  Random random(3);
  constexpr int32_t kChannels = 150, kCount = 80;
  for (const int32_t width : {2, 4, 7}) {
    const Matrix x = test::random_matrix(kCount, kChannels, random);
    const Matrix weight = test::random_matrix(width, kChannels, random);
    const Matrix bias = test::random_matrix(1, kChannels, random);
    const Attr attr = Conv1dAttr{width == 4 ? Activation::kSilu : Activation::kNone};
    for (const auto& [sizes, kept] : {std::pair(std::vector<int32_t>{70, 10}, 1),
                                      std::pair(std::vector<int32_t>{1, 1, 3, 75}, 1),
                                      std::pair(std::vector<int32_t>{40, 2, 38}, 3)}) {
      const auto with = [&](const auto& run) {
        return in_two_sequences(
            x, kChannels, sizes, kept, {width - 1, kChannels},
            [&](const Operand& in, const Operand& out, const Operand& state,
                const RunShape& shape) {
              const Operand of_bias = width == 2 ? Operand{} : bias.operand;
              run(std::vector<Operand>{in, weight.operand, of_bias, state}, out, shape);
            });
      };
      const Matrix expected =
          with([&](const std::vector<Operand>& in, const Operand& out, const RunShape& shape) {
            test::run(op::kConv1d, in, out, attr, shape, {supported_targets().front()});
          });
      const Matrix found =
          with([&](const std::vector<Operand>& in, const Operand& out, const RunShape& shape) {
            GetParam().run(op::kConv1d, in, out, attr, shape);
          });
      test::expect_same_bits(expected, found);
    }
  }
}

TEST_P(GpuSlstm, HasTheBitsOfTheCpuInAnyRuns) {
  Random random(4);
  constexpr int32_t kHeads = 2, kSize = 12, kChannels = kHeads * kSize, kCount = 20;
  const Matrix x = test::random_matrix(kCount, 4 * kChannels, random);
  const Matrix recurrent = test::random_matrix(kSize, 4 * kChannels, random, 0.3F);
  const Matrix bias = test::random_matrix(1, 4 * kChannels, random);
  const Attr attr = SlstmAttr{kHeads};
  for (const auto& [sizes, kept] :
       {std::pair(std::vector<int32_t>{20}, 1), std::pair(std::vector<int32_t>{1, 2, 17}, 3)}) {
    const auto with = [&](const auto& run) {
      return in_two_sequences(
          x, kChannels, sizes, kept, {4, kChannels},
          [&](const Operand& in, const Operand& out, const Operand& state, const RunShape& shape) {
            run(std::vector<Operand>{in, recurrent.operand, bias.operand, state}, out, shape);
          });
    };
    const Matrix expected =
        with([&](const std::vector<Operand>& in, const Operand& out, const RunShape& shape) {
          test::run(op::kSlstm, in, out, attr, shape);
        });
    const Matrix found =
        with([&](const std::vector<Operand>& in, const Operand& out, const RunShape& shape) {
          GetParam().run(op::kSlstm, in, out, attr, shape);
        });
    test::expect_same_bits(expected, found);
  }
}

TEST_P(GpuLinearHeads, HasTheBitsOfTheCpu) {
  Random random(6);
  const Matrix x = test::random_matrix(5, 36, random);
  const Matrix weight = test::random_matrix(36, 4, random);
  Matrix expected(5, 36), found(5, 36);
  test::run(op::kLinearHeads, {x.operand, weight.operand}, expected.operand, {},
            test::plain_shape(5));
  RunRows rows;
  rows.add(0, 5, 0);
  const Blocks blocks(1, {1, 1});
  GetParam().run(op::kLinearHeads, {x.operand, weight.operand}, found.operand, {},
                 rows.shape(blocks));
  test::expect_same_bits(expected, found);
}

}  // namespace
}  // namespace veery
