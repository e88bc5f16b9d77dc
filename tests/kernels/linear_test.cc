#include "kernels/cpu/linear.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <random>
#include <string>

#include "base/error.h"
#include "kernels/linear_problem.h"
#include "support/sanitized.h"

namespace veery {
namespace {

using test::Bytes;
using test::describe;
using test::Options;
using test::Problem;
using test::same_bits;

constexpr DType kFloats[] = {DType::kF32, DType::kF16, DType::kBF16};

void expect_contract(const std::vector<DType>& types, const std::vector<int64_t>& heights,
                     int64_t cols, int64_t rows, Options options = {}) {
  Problem p(types, heights, cols, rows, options);
  const std::vector<float> want = p.expected();
  for (const Target target : supported_targets()) {
    const auto got = p.run(target, 2);
    ASSERT_EQ(want.size(), got.size());
    for (size_t i = 0; i < want.size(); ++i)
      ASSERT_EQ(want[i], got[i]) << describe(target, types, rows) << " output " << i;
    ASSERT_TRUE(same_bits(want, got)) << describe(target, types, rows);
  }
}

int64_t narrow(DType type) { return std::max(64, info(type).block); }

class LinearOfType : public ::testing::TestWithParam<DType> {};

TEST_P(LinearOfType, ContractHoldsForEveryTargetAndNumberOfRows) {
  for (const int64_t rows : {1, 2, 3, 4, 5, 7, 8, 9, 16, 17, 33})
    expect_contract({GetParam()}, {35}, narrow(GetParam()) * 3, rows);
}

TEST_P(LinearOfType, ContractHoldsForOddShapes) {
  const int64_t block = info(GetParam()).block;
  for (const int64_t height : {1, 15, 16, 17, 100})
    for (const int64_t cols : {block, 3 * block, block == 32 ? 1056 : 2 * block})
      expect_contract({GetParam()}, {height}, cols, height % 2 == 0 ? 6 : 1);
}

// Wide rows are processed in several parts of their columns.
TEST_P(LinearOfType, ContractHoldsForWideRows) {
  const int64_t cols = info(GetParam()).block >= 128 ? 2304 : 2112;
  for (const int64_t height : {31, 33}) expect_contract({GetParam()}, {height}, cols, 21);
}

TEST_P(LinearOfType, ExactIsTheFloatProductOfDecodedWeights) {
  for (const int64_t rows : {1, 3, 11})
    expect_contract({GetParam()}, {19}, narrow(GetParam()) * 2, rows, {.exact = true});
}

TEST_P(LinearOfType, ContractHoldsForResidualQuantisation) {
  for (const int64_t rows : {1, 2, 3, 4, 5, 8, 9, 33})
    expect_contract({GetParam()}, {35}, narrow(GetParam()) * 3, rows,
                    {.norm = rows % 2 == 0, .residual = rows == 9, .quantises_residual = true});
}

// int8 quantisation has an error of up to 1/254 of the block's largest magnitude; quantising the
// residual reduces it by the same factor again.
TEST(Linear, ResidualQuantisationIsNearTheFloats) {
  const auto error = [](DType type, bool quantises_residual) {
    Problem p({type}, {64}, 512, 9, {.quantises_residual = quantises_residual});
    const auto got = p.run(Target::kReference, 2);
    const auto want = Problem({type}, {64}, 512, 9, {.exact = true}).expected();
    double sum = 0;
    for (size_t i = 0; i < want.size(); ++i) sum += std::pow(got[i] - want[i], 2);
    return std::sqrt(sum);
  };
  for (const DType type : {DType::kQ4_1, DType::kQ8_0, DType::kQ4_K, DType::kQ6_K})
    EXPECT_LT(error(type, true), error(type, false) / 50) << info(type).name;
}

INSTANTIATE_TEST_SUITE_P(Types, LinearOfType, ::testing::ValuesIn(test::typical_types()),
                         [](const auto& at) { return std::string(veery::info(at.param).name); });

TEST(Linear, ContractHoldsForAllGroupsOfCodes) {
  for (int i = 0; i < kAffineTypes; ++i) {
    const DType type = affine_at(i);
    for (const int64_t rows : {1, 2, 3, 8, 19}) expect_contract({type}, {35}, 384, rows);
    expect_contract({type}, {17}, info(type).block, 5);
    expect_contract({type}, {17}, 384, 3, {.exact = true});
  }
}

TEST(Linear, ContractHoldsForOddWidthsOfFloats) {
  for (const DType type : kFloats)
    for (const int64_t cols : {1, 15, 33}) expect_contract({type}, {20}, cols, 3);
}

TEST(Linear, ExactHoldsForOddWidthsOfFloats) {
  for (const DType type : kFloats)
    for (const int64_t cols : {1, 15, 33})
      for (const int64_t rows : {1, 3, 9})
        expect_contract({type}, {20}, cols, rows, {.exact = true});
}

// VDPBF16PS flushes subnormal numbers to 0, so all kernels do. Weights and activations of 2^-140 to
// 2^-55 have normal and subnormal products and sums.
TEST(Linear, Bf16FlushesSubnormalNumbers) {
  constexpr int64_t kRows = 20, kCols = 66;
  std::mt19937 rng(1);
  test::Bytes weights(kRows * kCols * 2);
  for (size_t i = 0; i < kRows * kCols; ++i) {
    const float v =
        std::ldexp(1.0F + static_cast<float>(rng() % 64) / 64, static_cast<int>(rng() % 90) - 145);
    const uint16_t bits = f32_to_bf16(rng() % 2 == 0 ? v : -v);
    std::memcpy(weights.data() + 2 * i, &bits, 2);
  }
  for (const int64_t rows : {1, 2, 9}) {
    Problem p({DType::kBF16}, {kRows}, kCols, rows);
    p.set_weights(0, weights);
    p.set_activations([](size_t i) {
      const auto n = static_cast<uint32_t>(i * 2654435761U) >> 7U;
      return std::ldexp(1.0F + static_cast<float>(n % 1000) / 1000,
                        static_cast<int>(n % 90) - 145 + (i % 3 == 0 ? 70 : 0));
    });
    const std::vector<float> want = p.expected();
    ASSERT_TRUE(std::any_of(want.begin(), want.end(), [](float v) { return v != 0; }));
    for (const Target target : supported_targets()) {
      const auto got = p.run(target, 1);
      for (size_t i = 0; i < want.size(); ++i)
        ASSERT_EQ(want[i], got[i]) << describe(target, {DType::kBF16}, rows) << " output " << i;
    }
  }
}

TEST(Linear, ContractHoldsForAnyNumberOfPanels) {
  for (const DType type : {DType::kF32, DType::kBF16, DType::kMXFP8, DType::kFP8_32,
                           DType::kFP8_128, DType::kNVFP4, DType::kQ4_0})
    for (const int64_t rows : {1, 2, 4, 7, 16})
      for (const int64_t height : {48, 64, 100}) expect_contract({type}, {height}, 128, rows);
}

TEST(Linear, WeightsOfDifferentTypesLieSideBySide) {
  for (const int64_t rows : {1, 4, 13}) {
    expect_contract({DType::kQ4_K, DType::kQ6_K, DType::kQ8_0}, {40, 17, 3}, 512, rows);
    expect_contract({DType::kQ4_1, DType::kQ5_0, DType::kF16}, {16, 33, 1}, 96, rows);
    expect_contract({DType::kQ4_1, DType::kQ3_K}, {16, 33}, 256, rows, {.exact = true});
  }
}

TEST(Linear, NormBiasAndResidualComeInOrder) {
  for (const DType type : {DType::kQ4_1, DType::kQ6_K, DType::kBF16})
    for (const int64_t rows : {1, 2, 9})
      for (int mask = 1; mask < 8; ++mask)
        expect_contract(
            {type, type}, {17, 30}, 768, rows,
            {.norm = (mask & 1) != 0, .residual = (mask & 2) != 0, .bias = (mask & 4) != 0});
}

TEST(Linear, NormOfAnOddWidth) {
  for (const int64_t cols : {7, 70, 129})
    expect_contract({DType::kF32}, {18}, cols, 3, {.norm = true});
}

std::vector<ActivateAttr> every_activation() {
  return {Activation::kSilu,
          Activation::kGelu,
          Activation::kGeluErf,
          Activation::kRelu,
          Activation::kReluSquared,
          Activation::kTanh,
          Activation::kSigmoid,
          Activation::kSoftplus,
          Activation::kLogSigmoid,
          ActivateAttr::clip(-0.2F, 0.1F),
          ActivateAttr::xielu(0.6F, 0.9F, 0.4F, -1e-6F)};
}

TEST(Linear, GateIsTheSameOnEveryTargetAndRight) {
  const std::vector<DType> pairs[] = {
      {DType::kQ5_K, DType::kQ4_0}, {DType::kQ5_K, DType::kQ4_K},   {DType::kQ5_K, DType::kF32},
      {DType::kBF16, DType::kBF16}, {DType::kMXFP8, DType::kMXFP8}, {DType::kFP8_32, DType::kF32}};
  for (const ActivateAttr& gate : every_activation())
    for (const std::vector<DType>& types : pairs)
      for (const int64_t rows : {1, 2, 4, 10}) {
        Problem p(types, {37, 37}, 256, rows,
                  {.gate = gate, .norm = true, .residual = true, .bias = true});
        const auto want = p.expected();
        const auto first = p.run(supported_targets().back(), 1);
        for (size_t i = 0; i < want.size(); ++i)
          ASSERT_NEAR(want[i], first[i], 1e-5F * (1 + std::fabs(want[i])));
        for (const Target target : supported_targets())
          EXPECT_TRUE(same_bits(first, p.run(target, 2))) << describe(target, types, rows);
      }
}

TEST(Linear, ActivationAndScaleOfOneWeight) {
  for (const ActivateAttr& gate : every_activation())
    for (const DType type : {DType::kQ4_0, DType::kQ6_K, DType::kF32})
      for (const int64_t rows : {1, 4, 10}) {
        Problem p({type}, {37}, 256, rows,
                  {.gate = gate, .residual = true, .bias = true, .scale = 0.3F});
        const auto want = p.expected();
        const auto first = p.run(supported_targets().back(), 1);
        for (size_t i = 0; i < want.size(); ++i)
          ASSERT_NEAR(want[i], first[i], 1e-5F * (1 + std::fabs(want[i])));
        for (const Target target : supported_targets())
          EXPECT_TRUE(same_bits(first, p.run(target, 2))) << describe(target, {type}, rows);
      }
}

TEST(Linear, ScaleComesBeforeTheResidual) {
  for (const DType type : {DType::kQ4_1, DType::kBF16})
    for (const int64_t rows : {1, 9})
      expect_contract({type, type}, {17, 30}, 768, rows,
                      {.residual = true, .bias = true, .scale = -1.7F});
}

TEST(Linear, WorkersAndPlansDoNotMatter) {
  for (const DType type : {DType::kQ4_1, DType::kQ8_0, DType::kQ6_K, DType::kF16})
    for (const int64_t rows : {1, 3, 12}) {
      Problem p({type, DType::kQ5_0, type}, {100, 1, 20}, 512, rows);
      for (const Target target : supported_targets()) {
        const auto want = p.run(target, 1);
        for (const int workers : {2, 3, 7})
          for (const int64_t plan_rows : {rows, int64_t{40}})
            EXPECT_TRUE(same_bits(want, p.run(target, workers, plan_rows)))
                << describe(target, {type}, rows) << " workers " << workers;
      }
    }
}

TEST(Linear, WorkStealingDoesNotMatter) {
  for (const DType type : {DType::kQ4_1, DType::kQ8_0, DType::kQ6_K, DType::kBF16})
    for (const bool gated : {false, true})
      for (const int64_t rows : {40, 300}) {
        const std::vector<int64_t> heights =
            gated ? std::vector<int64_t>{100, 100} : std::vector<int64_t>{100, 1, 20};
        Problem p(std::vector<DType>(heights.size(), type), heights, 512, rows,
                  {.gate = gated ? Activation::kSilu : Activation::kNone, .residual = !gated});
        for (const Target target : supported_targets()) {
          if (test::kSanitized && target == Target::kPlain) continue;
          p.last_worker_first = false;
          const auto want = p.run(target, 1);
          p.last_worker_first = true;
          for (const int workers : {1, 2, 3, 7})
            EXPECT_TRUE(same_bits(want, p.run(target, workers)))
                << describe(target, {type}, rows) << " workers " << workers;
        }
      }
}

// More rows than the kernel processes at once.
TEST(Linear, RowDoesNotDependOnItsPlace) {
  Problem p({DType::kQ4_0}, {16}, 1024, 700);
  const auto want = p.expected();
  EXPECT_TRUE(same_bits(want, p.run(supported_targets().front(), 2)));
}

TEST(Linear, NoRowsDoNothing) {
  Problem p({DType::kQ4_0}, {16}, 64, 0);
  for (const Target target : supported_targets()) {
    EXPECT_TRUE(p.run(target, 2, 1).empty());
    EXPECT_TRUE(p.run(target, 2, 64).empty());
  }
}

void expect_lowest_index(DType type, int64_t height, int64_t rows, bool quantises_residual) {
  Problem p({type}, {height}, 256, rows, {.norm = true, .quantises_residual = quantises_residual});
  const auto logits = p.expected();
  std::vector<int32_t> want;
  for (int64_t r = 0; r < rows; ++r) {
    const auto row = logits.begin() + r * height;
    want.push_back(static_cast<int32_t>(std::max_element(row, row + height) - row));
  }
  for (const Target target : supported_targets())
    for (const int workers : {1, 2, 3})
      for (const int64_t plan_rows : {rows, int64_t{40}})
        EXPECT_EQ(want, p.run_argmax(target, workers, plan_rows)) << describe(target, {type}, rows);
}
TEST(LinearArgmax, IsTheLowestIndexOfTheLargestLogit) {
  for (const DType type : {DType::kQ8_0, DType::kQ6_K, DType::kF32})
    for (const int64_t rows : {1, 3, 9})
      for (const int64_t height : {1, 16, 333})
        for (const bool quantises_residual : {false, true})
          expect_lowest_index(type, height, rows, quantises_residual);
}

TEST(LinearArgmax, EqualLogitsGiveTheFirst) {
  // Columns of zeros: all logits are 0.
  std::vector<float> x(64, 0.0F);
  Bytes packed(packed_bytes(DType::kQ4_0, 50, 64));
  const auto source = test::random_weight(DType::kQ4_0, 50, 64, 1);
  pack_panels(DType::kQ4_0, source.data(), 50, 64, packed.data(), 0, 4);
  int32_t out = -1;
  Dispatch d;
  d.in[0] = {.data = reinterpret_cast<std::byte*>(x.data()),
             .stride = 256,
             .rows = 1,
             .cols = 64,
             .layout = Layout::kRowMajor};
  d.in[3] = {.data = packed.data(),
             .stride = static_cast<int64_t>(panel_bytes(DType::kQ4_0, 64)),
             .rows = 50,
             .cols = 64,
             .dtype = DType::kQ4_0,
             .layout = Layout::kPanels};
  d.out() = {.data = reinterpret_cast<std::byte*>(&out),
             .stride = 4,
             .rows = 1,
             .cols = 1,
             .dtype = DType::kI32,
             .layout = Layout::kRowMajor};
  d.attr = FusedLinearAttr{};
  alignas(64) static std::byte work[4096];
  d.work = work;
  for (const Target target : supported_targets()) {
    const Kernel kernel = linear_kernel(op::kLinearArgmax, d, {target, 1});
    ASSERT_LE(kernel.work(d, {1, 1, 2}), sizeof work);
    Bytes scratch(kernel.scratch(d, {1, 1, 2}));
    for (const KernelFn phase : kernel.phases)
      for (int i = 0; phase != nullptr && i < 2; ++i) phase(d, {}, {i, 2, scratch.data()});
    EXPECT_EQ(out, 0) << name(target);
  }
}

TEST(LinearKernel, DeclinesWhatItCannotDo) {
  Problem p({DType::kQ4_0}, {16}, 64, 2);
  Dispatch d = p.dispatch();
  d.out().layout = Layout::kRowMajor;
  EXPECT_NE(linear_kernel(op::kFusedLinear, d, {}).phases[0], nullptr);
  EXPECT_EQ(linear_kernel(op::kAdd, d, {}).phases[0], nullptr);
  EXPECT_EQ(linear_kernel(op::kFusedLinear, d, {Target::kAvx2, 1}).name, "linear_q4_0_avx2_row");
  d.in[3].layout = Layout::kRowMajor;
  EXPECT_EQ(linear_kernel(op::kFusedLinear, d, {}).phases[0], nullptr);
}

}  // namespace
}  // namespace veery
