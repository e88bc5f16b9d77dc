#include <gtest/gtest.h>

#include "kernels/cpu/tiles/amx.h"
#include "kernels/linear_problem.h"

namespace veery {
namespace {

using test::describe;
using test::Options;
using test::Problem;
using test::same_bits;

constexpr DType kBlocks[] = {DType::kQ4_0, DType::kQ4_1,   DType::kQ5_0, DType::kQ5_1,
                             DType::kQ8_0, DType::kIQ4_NL, DType::kMXFP4};
constexpr DType kSupers[] = {DType::kQ2_K,    DType::kQ3_K,  DType::kQ4_K,   DType::kQ5_K,
                             DType::kQ6_K,    DType::kQ8_K,  DType::kIQ4_XS, DType::kIQ3_S,
                             DType::kIQ3_XXS, DType::kIQ2_S, DType::kIQ2_XS, DType::kIQ2_XXS,
                             DType::kIQ1_S,   DType::kIQ1_M, DType::kTQ1_0,  DType::kTQ2_0};

constexpr DType kAffine8 = affine_type({8, 64, DType::kBF16});

// Emulated tiles, and those of the processor if it has AMX.
std::vector<Target> tile_targets() {
  std::vector<Target> targets = {Target::kAmxEmulated};
  if (amx_usable()) targets.push_back(Target::kAmx);
  return targets;
}

bool has_vectors_for_tiles() {
  const auto targets = supported_targets();
  return std::ranges::find(targets, Target::kAvx512Vnni) != targets.end();
}

class AmxLinear : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!has_vectors_for_tiles()) GTEST_SKIP() << "the kernels on tiles need AVX-512 VNNI";
  }
  static void expect_contract(const std::vector<DType>& types, const std::vector<int64_t>& heights,
                              int64_t cols, int64_t rows, Options options = {}, int workers = 2) {
    Problem p(types, heights, cols, rows, options);
    expect_output(p, p.expected(), describe(Target::kAmx, types, rows), workers);
  }
  // Compares with the kernels without tiles, which other tests compare with the contract.
  static void expect_same_as_vectors(const std::vector<DType>& types,
                                     const std::vector<int64_t>& heights, int64_t cols,
                                     int64_t rows, Options options = {}, int workers = 2) {
    Problem p(types, heights, cols, rows, options);
    expect_output(p, p.run(Target::kAvx512Vnni, 1), describe(Target::kAmx, types, rows), workers);
  }
  static void expect_output(Problem& p, const std::vector<float>& want, const std::string& what,
                            int workers) {
    for (const Target target : tile_targets()) {
      const auto got = p.run(target, workers);
      ASSERT_EQ(want.size(), got.size());
      for (size_t i = 0; i < want.size(); ++i)
        ASSERT_EQ(want[i], got[i]) << name(target) << " " << what << " output " << i;
      ASSERT_TRUE(same_bits(want, got)) << name(target) << " " << what;
    }
  }
};

TEST(Amx, RefusalSaysWhy) {
  EXPECT_EQ(amx_usable(), *amx_refusal() == '\0');
  const bool chosen = supported_targets().front() == Target::kAmx;
  EXPECT_EQ(chosen, amx_usable() && has_vectors_for_tiles());
  if (!chosen) GTEST_SKIP() << "the real tiles are not tested: " << amx_refusal();
}

TEST_F(AmxLinear, TilesAreUsedForManyRows) {
  Problem p({DType::kQ4_0}, {16}, 64, 64);
  Dispatch d = p.dispatch();
  d.out().layout = Layout::kRowMajor;
  const auto name_with = [&](Target target, int64_t rows, bool exact = false) {
    return linear_kernel(op::kFusedLinear, d, {target, rows, exact}).name;
  };
  EXPECT_EQ(name_with(Target::kAmxEmulated, 64), "linear_q4_0_amx_emulated_batch");
  EXPECT_EQ(name_with(Target::kAmx, 512), "linear_q4_0_amx_batch");
  EXPECT_EQ(name_with(Target::kAmx, 1), "linear_q4_0_avx512_vnni_row");
  EXPECT_EQ(name_with(Target::kAmx, 64, true), "linear_q4_0_exact_avx512_vnni_batch");
  d.in[3].dtype = DType::kF16;
  EXPECT_EQ(name_with(Target::kAmx, 64), "linear_f16_avx512_vnni_batch");
  d.in[3].dtype = DType::kQ8_0;
  d.in[3].format = format_for_argmax(DType::kQ8_0).panels;
  EXPECT_EQ(name_with(Target::kAmx, 64), "linear_q8_0_amx_batch");
}

TEST_F(AmxLinear, BlocksOf32FollowTheContract) {
  for (const DType type : kBlocks)
    for (const int64_t rows : {1, 8, 12, 15, 16, 17, 33, 70})
      expect_contract({type}, {35}, 96, rows);
}

TEST_F(AmxLinear, BlocksOf256FollowTheContract) {
  for (const DType type : kSupers)
    for (const int64_t rows : {1, 8, 12, 15, 16, 17, 33, 70})
      expect_contract({type}, {35}, 512, rows);
}

TEST_F(AmxLinear, GroupsOfCodesFollowTheContract) {
  for (int i = 0; i < kAffineTypes; ++i)
    for (const int64_t rows : {12, 33}) {
      expect_contract({affine_at(i)}, {35}, 384, rows);
      expect_contract({affine_at(i)}, {17}, affine_format(affine_at(i)).group, rows);
    }
}

TEST_F(AmxLinear, ResidualQuantisationFollowsTheContract) {
  for (const DType type : {DType::kQ4_1, DType::kQ8_0, DType::kQ4_K, DType::kQ6_K})
    for (const int64_t rows : {3, 6, 8, 9, 33})
      expect_contract({type}, {35}, 512, rows, {.norm = rows == 9, .quantises_residual = true});
}

TEST_F(AmxLinear, OddShapes) {
  for (const DType type : kBlocks)
    for (const int64_t cols : {32, 64, 256, 288, 1056}) expect_contract({type}, {17}, cols, 19);
  for (const DType type : kSupers)
    for (const int64_t cols : {256, 1280}) expect_contract({type}, {17}, cols, 19);
  for (const int64_t height : {1, 15, 16, 33, 100}) {
    expect_contract({DType::kQ5_1}, {height}, 64, 20);
    expect_contract({DType::kQ5_K}, {height}, 256, 20);
  }
}

// One group of rows: panels are expanded in a software pipeline of several blocks (amx_few-inl.h).
TEST_F(AmxLinear, OneGroupOfRows) {
  for (const DType type : kBlocks)
    for (int64_t blocks = 1; blocks <= 11; ++blocks)
      expect_contract({type}, {33}, 32 * blocks, blocks % 2 == 0 ? 16 : 13);
  for (const int workers : {1, 3}) expect_contract({DType::kQ4_0}, {100}, 288, 14, {}, workers);
}

// All activations have the largest integer, weights and scales have their extreme values. No sum
// may be rounded before its last addition.
TEST_F(AmxLinear, TheLargestSumsAreExact) {
  for (const DType type : {DType::kQ8_0, affine_type({8, 32, DType::kF16}), DType::kQ2_K,
                           DType::kQ3_K, DType::kQ4_K, DType::kQ5_K, DType::kQ6_K})
    for (const int codes : {0x00, 0xff})
      for (const int scales : {0x80, 0x7f, 0xff, 0x00}) {
        Problem p({type}, {16}, 512, 34);
        test::Bytes bytes = p.weights(0);
        std::fill(bytes.begin(), bytes.end(), static_cast<std::byte>(codes));
        for (size_t at = 0; at < bytes.size(); at += static_cast<size_t>(info(type).bytes)) {
          const auto put = [&](size_t offset, size_t size) {
            std::memset(bytes.data() + at + offset, scales, size);
          };
          const auto half = [&](size_t offset, float value) {
            const uint16_t bits = f32_to_f16(value);
            std::memcpy(bytes.data() + at + offset, &bits, 2);
          };
          switch (type) {
            case DType::kQ2_K: put(offsetof(BlockQ2_K, scales), 16); break;
            case DType::kQ3_K: put(offsetof(BlockQ3_K, scales), 12); break;
            case DType::kQ6_K: put(offsetof(BlockQ6_K, scales), 16); break;
            case DType::kQ4_K:
            case DType::kQ5_K: put(4, 12); break;
            default: break;
          }
          switch (type) {
            case DType::kQ2_K:
              half(offsetof(BlockQ2_K, d), 0.7F), half(offsetof(BlockQ2_K, dmin), 0.01F);
              break;
            case DType::kQ3_K: half(offsetof(BlockQ3_K, d), 0.7F); break;
            case DType::kQ6_K: half(offsetof(BlockQ6_K, d), 0.7F); break;
            case DType::kQ4_K:
            case DType::kQ5_K: half(0, 0.7F), half(2, 0.01F); break;
            case DType::kQ8_0: half(0, 0.7F); break;
            default: half(0, 0.7F), half(2, -0.01F);
          }
        }
        p.set_weights(0, bytes);
        for (const float x : {1.0F, -3.1F}) {
          p.set_activations(x);
          expect_output(p, p.expected(),
                        fmt::format("{} {:x} {:x}", info(type).name, codes, scales), 1);
        }
      }
}

// More rows than a block of groups has, more columns than a column range has, more panels than a
// batch has.
TEST_F(AmxLinear, LargeProducts) {
  expect_same_as_vectors({DType::kQ4_1}, {40}, 64, 530);
  expect_same_as_vectors({DType::kQ4_0}, {150}, 1312, 512);
  expect_same_as_vectors({DType::kQ4_K}, {150}, 1280, 512);
  expect_same_as_vectors({DType::kQ6_K}, {20}, 4608, 130);
  expect_same_as_vectors({kAffine8}, {40}, 1280, 530);
  expect_same_as_vectors({DType::kQ4_K, DType::kQ5_0}, {90, 90}, 1280, 500,
                         {.gate = Activation::kSilu});
}

TEST_F(AmxLinear, WeightsOfDifferentTypesLieSideBySide) {
  expect_contract({DType::kQ4_K, DType::kQ6_K, DType::kQ8_0}, {40, 17, 3}, 512, 21);
  expect_contract({DType::kQ4_1, DType::kQ5_0, DType::kQ4_1}, {16, 33, 1}, 96, 50);
  expect_contract({DType::kQ4_1, DType::kF16, DType::kQ3_K}, {16, 33, 5}, 256, 13);
  expect_contract({DType::kNVFP4, DType::kQ4_0}, {16, 33}, 256, 13);
  expect_contract({kAffine8, DType::kQ4_K, DType::kQ4_1}, {16, 33, 5}, 256, 13);
  expect_contract({kAffine8, DType::kMXFP8}, {16, 33}, 256, 13);
}

TEST_F(AmxLinear, NormBiasAndResidualComeInOrder) {
  for (const DType type : {DType::kQ4_1, DType::kQ4_K})
    for (int mask = 1; mask < 8; ++mask)
      expect_contract(
          {type, type}, {17, 30}, 256, 18,
          {.norm = (mask & 1) != 0, .residual = (mask & 2) != 0, .bias = (mask & 4) != 0});
}

TEST_F(AmxLinear, EncoderShapesHaveTheBitsOfTheVectors) {
  constexpr DType kType = DType::kQ8_0;
  for (const int64_t rows : {18, 56, 130}) {
    expect_same_as_vectors({kType}, {35}, 1536, rows,
                           {.residual = true, .bias = true, .quantises_residual = true});
    expect_same_as_vectors({kType}, {35}, 384, rows, {.residual = true, .bias = true});
    expect_same_as_vectors({kType}, {35}, 384, rows, {.gate = Activation::kGeluErf, .bias = true});
    expect_same_as_vectors({kType, kType, kType}, {24, 24, 24}, 384, rows, {.bias = true});
  }
}

TEST_F(AmxLinear, GateIsThatOfTheVectors) {
  for (const Activation gate : {Activation::kSilu, Activation::kGelu})
    for (const DType up : {DType::kQ4_0, DType::kQ4_K})
      for (const int64_t rows : {16, 37})
        expect_same_as_vectors({DType::kQ5_K, up}, {37, 37}, 256, rows,
                               {.gate = gate, .norm = true, .residual = true, .bias = true});
}

TEST_F(AmxLinear, SplitPanelsFollowTheContract) {
  for (const int64_t cols : {32, 160, 1056})
    for (const int64_t rows : {1, 12, 33, 70})
      for (const int64_t height : {1, 35, 100}) {
        expect_contract({DType::kQ8_0}, {height}, cols, rows, {.split = true});
        Problem p({DType::kQ8_0}, {height}, cols, rows, {.split = true});
        for (const Target target : tile_targets())
          EXPECT_EQ(p.run_argmax(Target::kAvx512Vnni, 1), p.run_argmax(target, 2));
      }
}

TEST_F(AmxLinear, WorkersAndPlansDoNotMatter) {
  for (const DType type : {DType::kQ4_1, DType::kQ6_K})
    for (const int64_t rows : {3, 12, 40}) {
      Problem p({type, DType::kQ5_0, type}, {100, 1, 20}, 512, rows);
      const auto want = p.run(Target::kAvx512Vnni, 1);
      for (const Target target : tile_targets())
        for (const int workers : {1, 2, 3, 7})
          for (const int64_t plan_rows : {rows, int64_t{64}})
            EXPECT_TRUE(same_bits(want, p.run(target, workers, plan_rows)))
                << describe(target, {type}, rows) << " workers " << workers;
    }
}

TEST_F(AmxLinear, NoRowsDoNothing) {
  Problem p({DType::kQ4_0}, {16}, 64, 0);
  for (const Target target : tile_targets()) EXPECT_TRUE(p.run(target, 2, 64).empty());
}

TEST_F(AmxLinear, ArgmaxIsThatOfTheVectors) {
  for (const DType type : {DType::kQ8_0, DType::kQ6_K})
    for (const int64_t rows : {3, 17, 40})
      for (const int64_t height : {1, 16, 333}) {
        Problem p({type}, {height}, 256, rows, {.norm = true});
        const auto want = p.run_argmax(Target::kAvx512Vnni, 1);
        for (const Target target : tile_targets())
          for (const int workers : {1, 2, 3})
            for (const int64_t plan_rows : {rows, int64_t{64}})
              EXPECT_EQ(want, p.run_argmax(target, workers, plan_rows))
                  << describe(target, {type}, rows);
      }
}

}  // namespace
}  // namespace veery
