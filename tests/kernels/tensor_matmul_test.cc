#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "base/random.h"
#include "dtype/half.h"
#include "kernels/cpu/tensor/matmul.h"

namespace veery {
namespace {

size_t element_bytes(ElementType type) { return static_cast<size_t>(info(type).bytes); }

// Numbers of many magnitudes, some of them subnormal.
std::vector<std::byte> elements(int64_t count, ElementType type, uint64_t seed) {
  Random random(seed);
  std::vector<std::byte> bytes(static_cast<size_t>(count) * element_bytes(type));
  for (int64_t i = 0; i < count; ++i) {
    double x = random.uniform() * 4 - 2;
    if (i % 17 == 3) x *= 0x1p-64;
    if (i % 29 == 5 && type != ElementType::kF16) x *= 0x1p-130;
    std::byte* at = bytes.data() + static_cast<size_t>(i) * element_bytes(type);
    const auto put = [&](auto value) { std::memcpy(at, &value, sizeof value); };
    switch (type) {
      case ElementType::kF64: put(x); break;
      case ElementType::kF16: put(f32_to_f16(static_cast<float>(x))); break;
      case ElementType::kBF16: put(f32_to_bf16(static_cast<float>(x))); break;
      default: put(static_cast<float>(x));
    }
  }
  return bytes;
}
template <typename T>
T element(const StridedMatrix& m, ElementType type, int64_t row, int64_t column) {
  const std::byte* at = m.data + (row * m.row_stride + column * m.column_stride) *
                                     static_cast<int64_t>(element_bytes(type));
  const auto get = [&](auto value) { return std::memcpy(&value, at, sizeof value), value; };
  if (type == ElementType::kF16) return static_cast<T>(f16_to_f32(get(uint16_t{})));
  if (type == ElementType::kBF16) return static_cast<T>(bf16_to_f32(get(uint16_t{})));
  return get(T{});
}
float flush(float x) { return std::fabs(x) < std::numeric_limits<float>::min() ? 0.0F * x : x; }

// The definition of one element of the product.
template <typename T>
T product(const MatmulProblem& p, int64_t row, int64_t column) {
  T sum = 0;
  const bool pairs = p.type == ElementType::kBF16;
  for (int64_t i = 0; i < p.inner + (pairs ? p.inner % 2 : 0); ++i) {
    const int64_t k = pairs ? i ^ 1 : i;
    if (k >= p.inner) continue;
    T a = element<T>(p.a, p.type, row, k), b = element<T>(p.b, p.type, k, column);
    if constexpr (std::is_same_v<T, float>)
      if (pairs) {
        sum = flush(std::fma(flush(a), flush(b), sum));
        continue;
      }
    sum = std::fma(a, b, sum);
  }
  return sum;
}

template <typename T>
void expect_reference(MatmulProblem p, Target target) {
  std::vector<T> out(static_cast<size_t>(p.rows * p.columns), T{7});
  p.out = reinterpret_cast<std::byte*>(out.data());
  ThreadPool pool(2);
  matmul(p, target, pool);
  for (int64_t r = 0; r < p.rows; ++r)
    for (int64_t c = 0; c < p.columns; ++c)
      ASSERT_EQ(out[static_cast<size_t>(r * p.columns + c)], product<T>(p, r, c))
          << r << ' ' << c << " of " << p.rows << " x " << p.inner << " x " << p.columns;
}

class TensorMatmul : public testing::TestWithParam<ElementType> {};

TEST_P(TensorMatmul, HasTheBitsOfItsDefinitionOnEveryTarget) {
  const ElementType type = GetParam();
  struct Shape {
    int64_t rows, inner, columns;
  };
  for (const auto& [rows, inner, columns] :
       {Shape{1, 1, 1}, {5, 0, 3}, {13, 7, 33}, {25, 64, 64}, {3, 701, 40}, {130, 33, 70}})
    for (const bool a_is_transposed : {false, true})
      for (const bool b_is_transposed : {false, true}) {
        const auto a = elements(rows * inner, type, 1), b = elements(inner * columns, type, 2);
        MatmulProblem p{.type = type, .rows = rows, .columns = columns, .inner = inner};
        p.a =
            a_is_transposed ? StridedMatrix{a.data(), 1, rows} : StridedMatrix{a.data(), inner, 1};
        p.b = b_is_transposed ? StridedMatrix{b.data(), 1, inner}
                              : StridedMatrix{b.data(), columns, 1};
        for (const Target target : supported_targets())
          type == ElementType::kF64 ? expect_reference<double>(p, target)
                                    : expect_reference<float>(p, target);
      }
}

TEST_P(TensorMatmul, ReadsAnyStrides) {
  const ElementType type = GetParam();
  const auto a = elements(400, type, 3), b = elements(400, type, 4);
  MatmulProblem p{.type = type, .rows = 9, .columns = 6, .inner = 11};
  p.a = StridedMatrix{a.data() + 200 * element_bytes(type), -20, 2};
  p.b = StridedMatrix{b.data(), 30, 3};
  for (const Target target : supported_targets())
    type == ElementType::kF64 ? expect_reference<double>(p, target)
                              : expect_reference<float>(p, target);
  p.b = StridedMatrix{b.data(), 0, 0};  // one number everywhere
  for (const Target target : supported_targets())
    type == ElementType::kF64 ? expect_reference<double>(p, target)
                              : expect_reference<float>(p, target);
}

INSTANTIATE_TEST_SUITE_P(Types, TensorMatmul,
                         testing::Values(ElementType::kF16, ElementType::kBF16, ElementType::kF32,
                                         ElementType::kF64));

}  // namespace
}  // namespace veery
