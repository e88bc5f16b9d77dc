// The CPU kernel of rotary position embeddings against the reference kernel.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>

#include "base/random.h"
#include "kernels/cpu/tensor/rope.h"

namespace veery {
namespace {

constexpr int64_t kBatch = 2, kTokens = 37, kHeads = 5, kDim = 70;

// Heads in one of two orders, with a gap after each.
RopeHeads heads_in(std::vector<std::byte>& memory, bool heads_first) {
  constexpr int64_t kRow = kDim + 3;
  return {memory.data(), kTokens * kHeads * kRow, heads_first ? kRow : kHeads * kRow,
          heads_first ? kTokens * kRow : kRow};
}

struct Rotation {
  explicit Rotation(ElementType type, bool heads_first = false) {
    const size_t count = kBatch * kTokens * kHeads * (kDim + 3);
    const auto bytes = static_cast<size_t>(info(type).bytes);
    in.resize(count * bytes), out.resize(count * bytes);
    Random random(7);
    for (size_t i = 0; i < count; ++i) {
      // 16 bits with an exponent that makes no NaN in either type.
      if (type == ElementType::kF64) {
        const double value = random.normal();
        std::memcpy(&in[i * bytes], &value, bytes);
      } else if (type == ElementType::kF32) {
        const float value = random.normal();
        std::memcpy(&in[i * bytes], &value, bytes);
      } else {
        const auto value = static_cast<uint16_t>((random.next() & 0x80FFU) | 0x3F00U);
        std::memcpy(&in[i * bytes], &value, bytes);
      }
    }
    for (int i = 0; i < 4 * kBatch * kTokens; ++i)
      positions.push_back(static_cast<int32_t>(random.next()));
    problem = {.type = type,
               .batch = kBatch,
               .tokens = kTokens,
               .heads = kHeads,
               .head_dim = kDim,
               .in = heads_in(in, heads_first),
               .out = heads_in(out, heads_first)};
    for (size_t axis = 0; axis < 4; ++axis)
      problem.positions[axis] = positions.data() + axis * kBatch * kTokens;
  }
  std::vector<std::byte> in, out;
  std::vector<int32_t> positions;
  RopeProblem problem;
};

RopeParameters parameters(RopeMode mode) {
  return {.head_dim = kDim,
          .rope_dim = 46,
          .mode = mode,
          .pairing = RopePairing::kHeadHalf,
          .sections = {7, 6, 5, 2},
          .angles = {.attention_factor = 1.2}};
}

constexpr ElementType kTypes[] = {ElementType::kF16, ElementType::kBF16, ElementType::kF32,
                                  ElementType::kF64};

TEST(TensorRopeKernel, TargetsAndWorkersGiveTheSameBits) {
  ThreadPool one(1), three(3);
  for (const RopeMode mode : {RopeMode::kInterleaved, RopeMode::kImrope})
    for (const ElementType type : kTypes) {
      const RopeTable table(parameters(mode));
      Rotation plain(type);
      rope(plain.problem, table, Target::kPlain, one);
      for (const Target target : supported_targets())
        for (ThreadPool* pool : {&one, &three}) {
          Rotation run(type);
          rope(run.problem, table, target, *pool);
          EXPECT_EQ(run.out, plain.out) << name(target) << " " << info(type).name;
          Rotation in_place(type);
          in_place.problem.out = in_place.problem.in;
          rope(in_place.problem, table, target, *pool);
          for (int64_t row = 0; row < kBatch * kTokens * kHeads; ++row) {
            const auto bytes = static_cast<size_t>(info(type).bytes);
            const size_t at = static_cast<size_t>(row) * (kDim + 3) * bytes;
            ASSERT_EQ(std::memcmp(&in_place.in[at], &plain.out[at], kDim * bytes), 0);
          }
        }
    }
}

// The reference rounds the angle to f64, which at 2^31 has steps of 5e-7; below 2^20 of 2e-10.
TEST(TensorRopeKernel, IsTheReference) {
  ThreadPool pool(2);
  for (const RopeMode mode : {RopeMode::kInterleaved, RopeMode::kNeox, RopeMode::kMrope,
                              RopeMode::kVision, RopeMode::kImrope})
    for (const bool heads_first : {false, true})
      for (const bool back : {false, true}) {
        const RopeTable table(parameters(mode));
        Rotation run(ElementType::kF64, heads_first), expected(ElementType::kF64, heads_first);
        for (Rotation* each : {&run, &expected}) {
          for (int32_t& p : each->positions) p >>= 11;
          each->problem.back = back;
        }
        rope(run.problem, table, supported_targets().front(), pool);
        reference_rope(expected.problem, table);
        const auto* x = reinterpret_cast<const double*>(run.out.data());
        const auto* y = reinterpret_cast<const double*>(expected.out.data());
        for (size_t i = 0; i < run.out.size() / sizeof(double); ++i)
          ASSERT_NEAR(x[i], y[i], 2e-9) << static_cast<int>(mode) << " " << i;
      }
}

TEST(TensorRopeKernel, AnglesAreExactAtTheLargestPositions) {
  static_assert(std::numeric_limits<long double>::digits >= 53);
  RopeParameters p{.head_dim = 2, .rope_dim = 2};
  RopeTable table(p);
  ThreadPool pool(1);
  std::vector<int32_t> positions;
  Random random(3);
  for (int i = 0; i < 4000; ++i) positions.push_back(static_cast<int32_t>(random.next()));
  positions[0] = INT32_MIN, positions[1] = INT32_MAX, positions[2] = 0;
  for (const double frequency : {1.0, 0.31622776601683794, 1e-3, 1e-9, 1048576.0, 777777.777}) {
    table.frequency[0] = frequency;
    std::vector<double> x(2 * positions.size()), y(x.size());
    for (size_t i = 0; i < x.size(); i += 2) x[i] = 1;
    const RopeHeads heads{nullptr, 0, 2, 2};
    RopeProblem problem{.type = ElementType::kF64,
                        .batch = 1,
                        .tokens = std::ssize(positions),
                        .heads = 1,
                        .head_dim = 2,
                        .in = heads,
                        .out = heads};
    problem.in.data = reinterpret_cast<std::byte*>(x.data());
    problem.out.data = reinterpret_cast<std::byte*>(y.data());
    problem.positions.fill(positions.data());
    rope(problem, table, supported_targets().front(), pool);
    for (size_t i = 0; i < positions.size(); ++i) {
      // A long double of 64 bits holds the product of 32 and 53 bits within 2^-13 ulp of f64.
      const long double angle = static_cast<long double>(frequency) * positions[i];
      const double tolerance = 3e-16 + std::fabs(static_cast<double>(angle)) * 0x1p-64;
      ASSERT_NEAR(y[2 * i], static_cast<double>(std::cos(angle)), tolerance) << positions[i];
      ASSERT_NEAR(y[2 * i + 1], static_cast<double>(std::sin(angle)), tolerance) << positions[i];
    }
  }
}

}  // namespace
}  // namespace veery
