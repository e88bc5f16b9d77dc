// Q8_0 weights split into parts: the same products as from whole panels, and a pruned argmax that
// rarely reads the lower parts.
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>

#include "dtype/blocks.h"
#include "kernels/cpu/panels/split_panels.h"
#include "kernels/linear_problem.h"

namespace veery {
namespace {

using test::Bytes;
using test::describe;
using test::Options;
using test::Problem;
using test::same_bits;

constexpr DType kType = DType::kQ8_0;

TEST(SplitPanels, RowsDecodeAsTheFileDoes) {
  for (const int64_t rows : {1, 16, 17, 40}) {
    const int64_t cols = 96;
    const auto source = test::random_weight(kType, rows, cols, 7);
    const WeightFormat format = format_for_argmax(kType);
    Bytes packed(packed_bytes(format, rows, cols));
    for (int64_t p = 0; p < (rows + 15) / 16; ++p)
      pack_panels(format, source.data(), rows, cols, packed.data(), p, p + 1);
    const Operand w = {.data = packed.data(),
                       .stride = static_cast<int64_t>(panel_bytes(kType, cols)),
                       .rows = rows,
                       .cols = static_cast<int32_t>(cols),
                       .dtype = kType,
                       .layout = Layout::kPanels,
                       .format = format.panels};
    std::vector<float> want(static_cast<size_t>(cols));
    std::vector<float> got(want.size());
    const size_t bytes = byte_size(kType, cols);
    for (int64_t r = 0; r < rows; ++r) {
      decode(kType, {source.data() + static_cast<size_t>(r) * bytes, bytes}, want);
      decode_row(w, r, got.data());
      ASSERT_EQ(want, got) << "row " << r << " of " << rows;
    }
  }
}

TEST(SplitPanels, GiveTheProductsOfWholeOnes) {
  for (const int64_t rows : {1, 2, 3, 5, 8, 17, 33})
    for (const int64_t height : {1, 17, 70})
      for (const bool exact : {false, true}) {
        Options options{.norm = rows % 2 == 1, .bias = rows == 5, .exact = exact};
        options.quantises_residual = height == 17;
        Problem whole({kType}, {height}, 160, rows, options);
        options.split = true;
        Problem split({kType}, {height}, 160, rows, options);
        for (const Target target : supported_targets())
          ASSERT_TRUE(same_bits(whole.run(target, 2), split.run(target, 3)))
              << describe(target, {kType}, rows) << " of " << height;
      }
}

// Returns the index of the largest output of each row.
std::vector<int32_t> largest(const std::vector<float>& y, int64_t rows) {
  const auto height = std::ssize(y) / rows;
  std::vector<int32_t> best;
  for (auto row = y.begin(); row != y.end(); row += height)
    best.push_back(static_cast<int32_t>(std::max_element(row, row + height) - row));
  return best;
}

void expect_largest(Problem& p, int64_t cols, const std::string& what, int64_t rows = 1) {
  const std::vector<int32_t> want = largest(p.run(Target::kReference, 1), rows);
  for (const Target target : supported_targets())
    for (const int workers : {1, 2, 5})
      for (const int64_t plan_rows : {1, 4, 8, 16, 40})
        ASSERT_EQ(want, p.run_argmax(target, workers, plan_rows))
            << name(target) << ' ' << what << ' ' << cols << ", rows " << rows;
}

TEST(SplitPanels, LargestOfFlatOutputs) {
  for (const int64_t cols : {32, 160, 2048})
    for (const int64_t height : {1, 15, 33, 1000}) {
      for (const float scale : {1.0F, 0.37F, -2.0F}) {
        Problem p({kType}, {height}, cols, 1,
                  {.norm = true, .scale = scale, .split = true, .quantises_residual = true});
        expect_largest(p, cols, "scaled");
      }
      for (const bool quantises_residual : {false, true}) {
        Problem p({kType}, {height}, cols, 1,
                  {.residual = true,
                   .bias = true,
                   .split = true,
                   .quantises_residual = quantises_residual});
        expect_largest(p, cols, "with bias and residual");
      }
      Problem one({kType}, {height}, cols, 1, {.norm = true, .split = true});
      expect_largest(one, cols, "of one term");
    }
}

TEST(SplitPanels, LargestOfSeveralRows) {
  for (const int64_t rows : {2, 3, 4, 5, 8, 9, 15, 16})
    for (const int64_t height : {1, 33, 500}) {
      Problem p({kType}, {height}, 160, rows,
                {.norm = rows % 2 == 0, .scale = 0.37F, .split = true, .quantises_residual = true});
      expect_largest(p, 160, "several", rows);
    }
}

BlockQ8_0* row_of(Bytes& weights, int64_t row, int64_t cols) {
  return reinterpret_cast<BlockQ8_0*>(weights.data()) + row * cols / 32;
}

// Makes weight row `row` parallel to x, so that its output is far above the others.
void point(Bytes& weights, int64_t row, int64_t cols, float (*x)(size_t), int weakest) {
  for (int64_t k = 0; k < cols; ++k) {
    BlockQ8_0& block = row_of(weights, row, cols)[k / 32];
    block.d = f32_to_f16(0.05F);
    const float v = x(static_cast<size_t>(k));
    block.qs[k % 32] = static_cast<int8_t>(v > 0 ? weakest : -weakest);
  }
}
float wave(size_t i) { return std::sin(static_cast<float>(i) * 1.7F) + (i % 100 == 3 ? 30 : 0); }

TEST(SplitPanels, PrunedArgmaxIsChosenIfOnlyAFactorFollows) {
  const auto name_of = [](const Options& options, int64_t rows) {
    Problem p({kType}, {33}, 64, rows, options);
    Dispatch d = p.dispatch();
    d.out().layout = Layout::kRowMajor;
    const Kernel kernel = choose_kernel(op::kLinearArgmax, d, {Target::kPlain, rows});
    EXPECT_EQ(kernel.weight_share < 1, kernel.name == "pruned_argmax_q8_0_plain");
    return kernel.name;
  };
  const Options usual{.scale = 0.5F, .split = true, .quantises_residual = true};
  EXPECT_EQ(name_of(usual, 1), "pruned_argmax_q8_0_plain");
  EXPECT_EQ(name_of(usual, 2), "pruned_argmax_q8_0_plain");
  EXPECT_EQ(name_of(usual, 16), "pruned_argmax_q8_0_plain");
  EXPECT_EQ(name_of(usual, 17), "linear_argmax_q8_0_plain_batch");
  for (Options options :
       {Options{.bias = true}, Options{.residual = true}, Options{.scale = -1.0F}}) {
    options.split = options.quantises_residual = true;
    EXPECT_EQ(name_of(options, 1), "linear_argmax_q8_0_plain_row");
  }
  EXPECT_EQ(name_of({.split = true}, 1), "linear_argmax_q8_0_plain_row");
  EXPECT_EQ(name_of({.quantises_residual = true}, 1), "linear_argmax_q8_0_plain_row");
}

class SplitRows : public ::testing::TestWithParam<int64_t> {};
INSTANTIATE_TEST_SUITE_P(Rows, SplitRows, ::testing::Values(1, 3, 11));

std::vector<int32_t> each(int64_t rows, int32_t index) {
  return std::vector<int32_t>(static_cast<size_t>(rows), index);
}

TEST_P(SplitRows, LargestAmongEqualsIsTheFirst) {
  const int64_t cols = 128;
  const int64_t height = 400;
  Problem p({kType}, {height}, cols, GetParam(), {.split = true, .quantises_residual = true});
  p.set_activations([](size_t i) { return wave(i % 133); });  // 133: the stride of rows
  for (const std::vector<int64_t>& rows : {std::vector<int64_t>{399}, {17, 18}, {390, 5, 200}}) {
    Bytes weights = test::random_weight(kType, height, cols, 3);
    for (const int64_t row : rows) point(weights, row, cols, wave, 100);
    p.set_weights(0, weights);
    const auto want = static_cast<int32_t>(*std::min_element(rows.begin(), rows.end()));
    for (const Target target : supported_targets())
      for (const int workers : {1, 2, 3})
        EXPECT_EQ(each(GetParam(), want), p.run_argmax(target, workers)) << name(target);
  }
  p.set_activations(0.0F);
  EXPECT_EQ(each(GetParam(), 0), p.run_argmax(supported_targets().back(), 2));
}

// Equal outputs in one lane of two panels; the second one has the larger upper parts.
TEST_P(SplitRows, LargestAmongEqualsIsTheFirstWhateverTheUpperBitsSay) {
  const int64_t cols = 64;
  const int64_t height = 160;
  Problem p({kType}, {height}, cols, GetParam(), {.split = true, .quantises_residual = true});
  p.set_activations(1.0F);
  Bytes weights(static_cast<size_t>(height) * byte_size(kType, cols));
  for (int64_t r = 0; r < height; ++r)
    for (int64_t k = 0; k < cols; ++k) {
      BlockQ8_0& block = row_of(weights, r, cols)[k / 32];
      block.d = f32_to_f16(0.1F);
      // Both rows have the sum 31 + 33 = 32 + 32. Rounded down to steps of 16 (or 8) these are
      // 16 + 32 (24 + 32) and 32 + 32.
      const int other = k % 2 == 0 ? 31 : 33;
      block.qs[k % 32] = static_cast<int8_t>(r == 35 ? other : r == 99 ? 32 : 3);
    }
  p.set_weights(0, weights);
  expect_largest(p, cols, "equals of unequal parts", GetParam());
  EXPECT_EQ(each(GetParam(), 35), p.run_argmax(supported_targets().back(), 2));
}

// Rows differ in the lower bits only.
TEST_P(SplitRows, LowerBitsDecide) {
  const int64_t cols = 64;
  const int64_t height = 320;
  Problem p({kType}, {height}, cols, GetParam(), {.split = true, .quantises_residual = true});
  p.set_activations(1.0F);
  for (const int64_t best : {0, 100, 319}) {
    Bytes weights(static_cast<size_t>(height) * byte_size(kType, cols));
    for (int64_t r = 0; r < height; ++r)
      for (int64_t k = 0; k < cols; ++k) {
        BlockQ8_0& block = row_of(weights, r, cols)[k / 32];
        block.d = f32_to_f16(0.1F);
        block.qs[k % 32] =
            static_cast<int8_t>(16 + (r * 3 + k) % 7 + (r == best && k < 20 ? 1 : 0));
      }
    p.set_weights(0, weights);
    expect_largest(p, cols, "lower bits", GetParam());
  }
}

// If outputs are close to each other, pruning pauses for longer and longer times. It resumes when
// it pays again.
TEST_P(SplitRows, PruningPausesIfItDoesNotPay) {
  const int64_t cols = 1024;
  const int64_t height = 800;
  Problem p({kType}, {height}, cols, GetParam(), {.split = true, .quantises_residual = true});
  p.set_activations([](size_t i) { return wave(i % 1029); });  // 1029: the stride of rows
  p.keeps_history = true;
  Bytes weights = p.weights(0);
  for (int64_t r = 1; r < height; ++r)
    std::copy_n(row_of(weights, 0, cols), cols / 32, row_of(weights, r, cols));
  p.set_weights(0, weights);
  const int32_t flat = 0;
  int pruned_runs = 0;
  const auto run = [&](int32_t want) {
    const PruningHistory& history = p.history();
    pruned_runs += (GetParam() == 1 ? history.one : history.several).left == 0 ? 1 : 0;
    EXPECT_EQ(each(GetParam(), want), p.run_argmax(supported_targets().back(), 2));
  };
  ASSERT_EQ(each(GetParam(), flat), p.run_argmax(supported_targets().back(), 2));
  for (int i = 0; i < 256; ++i) run(flat);
  EXPECT_EQ(pruned_runs, 7);  // after pauses of 1, 3, 7, .., 127 runs
  point(weights, 500, cols, wave, 127);
  p.set_weights(0, weights);
  for (int i = 0; i < 128; ++i) run(500);
  pruned_runs = 0;
  for (int i = 0; i < 100; ++i) run(500);
  EXPECT_EQ(pruned_runs, 100);
}

// If the upper part prunes few panels but the middle part prunes most, both are read at once, until
// the upper part prunes more again.
TEST(SplitPanels, TwoPartsAreReadAtOnceIfTheUpperOnePrunesLittle) {
  const int64_t cols = 1024;
  const int64_t height = 800;
  Problem p({kType}, {height}, cols, 1, {.split = true, .quantises_residual = true});
  p.set_activations(1.0F);
  p.keeps_history = true;
  const auto run = [&](int64_t best, int others) {  // codes of one row and of all others
    Bytes weights = p.weights(0);
    for (int64_t r = 0; r < height; ++r)
      for (int64_t k = 0; k < cols; ++k) {
        BlockQ8_0& block = row_of(weights, r, cols)[k / 32];
        block.d = f32_to_f16(0.1F);
        block.qs[k % 32] = static_cast<int8_t>(r == best ? 31 : others);
      }
    p.set_weights(0, weights);
    for (int i = 0; i < 2; ++i)
      EXPECT_EQ(std::vector<int32_t>{static_cast<int32_t>(best)},
                p.run_argmax(supported_targets().back(), 2));
    return &p.history();
  };
  EXPECT_EQ(run(5, 3)->reads_two_parts, 0);
  EXPECT_EQ(run(500, 20)->reads_two_parts, 1);  // at most 31 of 31 by four bits, 23 by five
  EXPECT_EQ(run(77, 20)->one.left, 0);
  EXPECT_EQ(run(5, 3)->reads_two_parts, 0);
}

// Scales of either sign and of many magnitudes.
TEST(SplitPanels, LargestWhateverTheScales) {
  const int64_t cols = 256;
  const int64_t height = 500;
  for (uint32_t seed = 1; seed <= 8; ++seed) {
    const int64_t rows = seed % 2 == 0 ? 1 : 2 + seed;
    Problem p({kType}, {height}, cols, rows, {.split = true, .quantises_residual = true});
    Bytes weights = test::random_weight(kType, height, cols, seed);
    std::mt19937 random(seed);
    for (int64_t i = 0; i < height * cols / 32; ++i) {
      const float size = std::exp2(static_cast<float>(random() % 20) - 14.0F);
      row_of(weights, 0, cols)[i].d = f32_to_f16(random() % 2 == 0 ? size : -size);
    }
    p.set_weights(0, weights);
    expect_largest(p, cols, "any scales", rows);
  }
}

// Protects the memory of a weight so that only the upper part can be read, except for two panels:
// the one with the largest output, and the first one. There the first worker starts, and finds the
// second largest output. The workers run one after the other.
void expect_only_two_panels_read(int64_t peak) {
  const auto page = static_cast<int64_t>(sysconf(_SC_PAGESIZE));
  const int64_t cols = page / 64 * 32;  // middle and lower part of a panel fill whole pages
  const int64_t panels = 16;            // the upper parts of 16 panels fill whole pages
  const int64_t height = panels * 16;
  Problem p({kType}, {height}, cols, 1, {.split = true, .quantises_residual = true});
  p.set_activations(wave);
  Bytes weights = test::random_weight(kType, height, cols, 3);
  point(weights, 9, cols, wave, 100);
  point(weights, peak * 16 + 3, cols, wave, 127);
  p.set_weights(0, weights);
  Dispatch d = p.dispatch();
  const size_t bytes = packed_bytes(format_for_argmax(kType), height, cols);
  void* memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(memory, MAP_FAILED);
  std::memcpy(memory, d.in[3].data, bytes);
  const SplitPanels at(height, cols);
  for (int64_t panel = 0; panel < panels; ++panel) {
    if (panel == 0 || panel == peak) continue;
    for (const auto& [from, bytes_of_part] :
         {std::pair{at.middle(panel), at.middle_bytes()}, {at.lower(panel), at.lower_bytes()}}) {
      ASSERT_EQ(from % page, 0);
      std::byte* part = static_cast<std::byte*>(memory) + from;
      ASSERT_EQ(mprotect(part, static_cast<size_t>(bytes_of_part), PROT_NONE), 0);
    }
  }
  const int32_t want = static_cast<int32_t>(peak * 16 + 3);
  for (const Target target : supported_targets())
    for (const int workers : {1, 2, 3})
      EXPECT_EQ(std::vector<int32_t>{want},
                p.run_argmax(target, workers, 1, static_cast<std::byte*>(memory)))
          << name(target);
  munmap(memory, bytes);
}
TEST(SplitPanels, OnlyPanelsThatMayHoldTheLargestAreRead) {
  for (const int64_t peak : {0, 7, 15}) expect_only_two_panels_read(peak);
}

}  // namespace
}  // namespace veery
