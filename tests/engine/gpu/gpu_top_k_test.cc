// top_k on the GPU emulator: the bits of the CPU.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <stdexcept>

#include "kernels/gpu/gpu.h"
#include "kernels/kernel_runner.h"
#include "kernels/metal/machine.h"
#include "kernels/metal/metal.h"
#include "support/fake_metal.h"
#include "support/gpu_machine.h"

namespace veery {
namespace {

using test::Matrix;

constexpr float kInfinity = std::numeric_limits<float>::infinity();

/// The results of top_k; NaN and -2 until written.
struct Top {
  Matrix values, indices, mass;
  Top(int64_t rows, int32_t count)
      : values(rows, count), indices(rows, count, DType::kI32), mass(rows, 1) {
    for (int64_t r = 0; r < rows; ++r) {
      std::fill_n(values[r], count, std::nanf(""));
      std::fill_n(indices.operand.row<int32_t>(r), count, -2);
      mass[r][0] = std::nanf("");
    }
  }
  Dispatch dispatch(const Matrix& x, int32_t count) const {
    Dispatch d;
    d.in[UnaryIn::kX] = x.operand;
    d.attr = TopKAttr{count};
    d.outputs = {values.operand, indices.operand, mass.operand};
    return d;
  }
};

void run_on_cpu(const Dispatch& d, int64_t rows) {
  const Kernel kernel = choose_kernel(op::kTopK, d, {.target = supported_targets().front()});
  const Worker worker{0, 1, nullptr, nullptr};
  kernel.phases[0](d, test::plain_shape(static_cast<int32_t>(rows)), worker);
}

/// Masks of three rows: all tokens allowed, every `each`th token, only the last token.
class SomeTokens : public TokenMask {
 public:
  explicit SomeTokens(int32_t each) : each_(each) {}
  bool allows(int64_t row, int32_t token) const {
    return row % 3 == 0 || (row % 3 == 1 ? token % each_ == each_ / 2 : token == tokens - 1);
  }
  void fill(const TokenMaskRows& rows) override {
    if (fails) throw std::runtime_error("no mask");
    for (int32_t r = 0; r < rows.count(); ++r) {
      if (r % 3 == 0) {
        rows.allow_all(r);
        continue;
      }
      const std::span<uint32_t> bits = rows.bits(r);
      std::ranges::fill(bits, 0U);
      for (int32_t i = 0; i < tokens; ++i)
        if (allows(r, i)) bits[static_cast<size_t>(i) / 32] |= 1U << i % 32;
    }
  }
  int32_t tokens = 0;
  bool fails = false;

 private:
  int32_t each_;
};

/// Returns the rows with masked logits replaced by NaN.
Matrix masked(const Matrix& x, SomeTokens& mask) {
  const auto cols = mask.tokens = x.operand.cols;
  Matrix changed(x.operand.rows, cols);
  for (int64_t r = 0; r < x.operand.rows; ++r)
    for (int32_t i = 0; i < cols; ++i) changed[r][i] = mask.allows(r, i) ? x[r][i] : std::nanf("");
  return changed;
}

/// The device that top_k() runs on.
enum class On { kCuda, kMetal };

std::shared_ptr<Backend> backend_on(On on, metal::FakeGpu& gpu, int sm_count) {
  if (on == On::kCuda) return gpu::make_backend(gpu::make_emulator(227 << 10, sm_count));
  // The fake GPU takes the same time for any number of thread blocks, each of which reads 16 KiB,
  // so the size of the measurement determines the SM count.
  return gpu::make_backend(metal::make_machine(metal::make_fake(gpu), metal::kShaders,
                                               static_cast<size_t>(sm_count) << 14));
}

void expect_cpu_bits(On on, const Matrix& x, int32_t count, const char* what, int sm_count,
                     SomeTokens* mask = nullptr) {
  const int64_t rows = x.operand.rows;
  Top expected(rows, count), found(rows, count);
  const Matrix on_cpu = mask != nullptr ? masked(x, *mask) : x;
  run_on_cpu(expected.dispatch(on_cpu, count), rows);
  metal::FakeGpu gpu;
  gpu.command_seconds = 1e-6;
  const auto backend = backend_on(on, gpu, sm_count);
  const Dispatch d = found.dispatch(x, count);
  backend->choose(op::kTopK, d, {});
  test::Batch batch(1, kPagePositions);
  batch.add(0, 0, static_cast<int32_t>(rows));
  const std::vector<int32_t> numbers(static_cast<size_t>(rows));
  RunShape shape = batch.shape();
  shape.output_rows = numbers.data();
  const Step step{op::kTopK, d};
  const auto made = backend->lower({&step, 1}, {}, {&shape, 1, rows, rows});
  made->run(shape);
  if (mask != nullptr) {
    shape.mask = mask;
    mask->fails = true;
    EXPECT_THROW(made->run(shape), std::runtime_error);
    mask->fails = false;
  }
  made->run(shape);  // the previous run must have reset the counters that thread blocks share
  test::expect_same_bits(expected.values, found.values, what);
  test::expect_same_bits(expected.mass, found.mass, what);
  for (int64_t r = 0; r < rows; ++r)
    for (int32_t i = 0; i < count; ++i)
      EXPECT_EQ(found.indices.operand.row<int32_t>(r)[i],
                expected.indices.operand.row<int32_t>(r)[i])
          << what << r << ' ' << i;
  EXPECT_EQ(gpu.faults, "");
}

/// Tests rows that one thread block processes, and rows that several share.
void expect_cpu_bits(On on, const Matrix& x, int32_t count, const char* what) {
  for (const int sm_count : {2, 64}) expect_cpu_bits(on, x, count, what, sm_count);
}

class GpuTopK : public ::testing::TestWithParam<On> {};
INSTANTIATE_TEST_SUITE_P(Each, GpuTopK, ::testing::Values(On::kCuda, On::kMetal),
                         [](const auto& of) { return of.param == On::kCuda ? "cuda" : "metal"; });

// Masks are applied in the launches before top_k(). Few tokens are allowed, or more than are
// sorted.
TEST_P(GpuTopK, RespectsTokenMasks) {
  Random random(12);
  for (const int32_t cols : {7, 1000, 70000})
    for (const int32_t each : {2, 5, 997})
      for (const int sm_count : {2, 64}) {
        SomeTokens mask(each);
        const Matrix x = test::random_matrix(4, cols, random, 3);
        expect_cpu_bits(GetParam(), x, 128, "masked", sm_count, &mask);
      }
}

TEST_P(GpuTopK, HasTheBitsOfTheCpu) {
  Random random(11);
  for (const int32_t cols : {7, 1000, 5003})
    for (const int32_t count : {1, 128}) {
      const Matrix x = test::random_matrix(3, cols, random, 3);
      expect_cpu_bits(GetParam(), x, count, "random");
    }
}

// Sorted rows, so that one thread has all of the largest elements; more equal elements than are
// sorted; NaNs.
TEST_P(GpuTopK, TakesAnyRows) {
  constexpr int32_t kCols = 4500;
  Random random(5);
  Matrix x = test::random_matrix(6, kCols, random, 2);
  for (int32_t c = 0; c < kCols; ++c) {
    x[0][c] = static_cast<float>(c) * 0.01F;
    if (c % 1024 == 3) x[1][c] = 20 + static_cast<float>(c);
    x[2][c] = static_cast<float>(c % 2);
    x[3][c] = c % 2 == 0 ? 0.0F : -0.0F;
    x[4][c] = std::nanf("");
    if (c % 3 == 0) x[5][c] = c % 2 == 0 ? -kInfinity : std::nanf("");
  }
  expect_cpu_bits(GetParam(), x, 40, "any");
  x[4][77] = kInfinity;
  x[4][80] = 1;
  expect_cpu_bits(GetParam(), x, 3, "infinite");
}

}  // namespace
}  // namespace veery
