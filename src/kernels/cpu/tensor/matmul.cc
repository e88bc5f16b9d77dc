#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/tensor/matmul.cc"
#include "kernels/cpu/simd/foreach_f32_target.h"
//
#include "kernels/cpu/simd/simd-inl.h"
//
#include <algorithm>
#include <cmath>
#include <vector>

#include "dtype/half.h"
#include "kernels/cpu/tensor/matmul.h"

HWY_BEFORE_NAMESPACE();
namespace veery {
namespace HWY_NAMESPACE {
namespace {

// A block of `a` (kBlockRows x kBlockInner) stays in L2, a panel of `b` in L1. The accumulators of
// a tile of kRows x kColumns fill the registers.
constexpr int64_t kBlockInner = 384;
constexpr int64_t kBlockRows = 96;
constexpr int64_t kBlockColumns = 1024;

/// The tile for f32.
struct TileF32 {
  using T = float;
#if HWY_TARGET == HWY_AVX3
  static constexpr int kRows = 12, kVectors = 2;
#elif HWY_TARGET == HWY_AVX2 || HWY_TARGET == HWY_NEON
  static constexpr int kRows = 6, kVectors = 1;
#else
  static constexpr int kRows = 4, kVectors = 1;
#endif
  static constexpr int kColumns = 16 * kVectors;

  // acc += a b for `inner` steps, on packed panels a [inner][kRows], b [inner][kColumns].
  static HWY_INLINE void multiply(const float* a, const float* b, int64_t inner, float* tile) {
    F32 acc[kRows][kVectors];
    unroll<kRows>([&](auto r) {
      unroll<kVectors>([&](auto v) { acc[r()][v()] = load(tile + r() * kColumns + v() * 16); });
    });
    for (int64_t k = 0; k < inner; ++k) {
      F32 row[kVectors];
      unroll<kVectors>([&](auto v) { row[v()] = load(b + k * kColumns + v() * 16); });
      unroll<kRows>([&](auto r) {
        const F32 x = set(a[k * kRows + r()]);
        unroll<kVectors>([&](auto v) { acc[r()][v()] = fma(x, row[v()], acc[r()][v()]); });
      });
    }
    unroll<kRows>([&](auto r) {
      unroll<kVectors>([&](auto v) { store(tile + r() * kColumns + v() * 16, acc[r()][v()]); });
    });
  }
};

struct TileF64 {
  using T = double;
  static constexpr int kRows = 4, kColumns = 8;
  static HWY_INLINE void multiply(const double* a, const double* b, int64_t inner, double* tile) {
    double acc[kRows * kColumns];
    std::copy_n(tile, kRows * kColumns, acc);
    for (int64_t k = 0; k < inner; ++k)
      for (int r = 0; r < kRows; ++r)
        for (int c = 0; c < kColumns; ++c)
          acc[r * kColumns + c] =
              std::fma(a[k * kRows + r], b[k * kColumns + c], acc[r * kColumns + c]);
    std::copy_n(acc, kRows * kColumns, tile);
  }
};

template <typename T>
HWY_INLINE T element(const std::byte* data, ElementType type, int64_t at) {
  switch (type) {
    case ElementType::kF16:
      return static_cast<T>(f16_to_f32(reinterpret_cast<const uint16_t*>(data)[at]));
    case ElementType::kBF16:
      return static_cast<T>(bf16_to_f32(reinterpret_cast<const uint16_t*>(data)[at]));
    default: return reinterpret_cast<const T*>(data)[at];
  }
}

// Packs `count` lines (rows of a, columns of b) of `inner` elements to [inner][kLines]; the lines
// that are missing are zeros.
template <typename T, int kLines>
void pack(const StridedMatrix& from, ElementType type, int64_t line_stride, int64_t inner_stride,
          int64_t first_line, int64_t count, int64_t first_inner, int64_t inner, T* to) {
  for (int64_t k = 0; k < inner; ++k) {
    const int64_t at = first_line * line_stride + (first_inner + k) * inner_stride;
    for (int64_t i = 0; i < count; ++i)
      to[k * kLines + i] = element<T>(from.data, type, at + i * line_stride);
    for (int64_t i = count; i < kLines; ++i) to[k * kLines + i] = T{0};
  }
}

// Multiplies one packed block of rows with the panels of b from `column` on.
template <typename Tile>
void multiply_block(const MatmulProblem& p, const typename Tile::T* a, const typename Tile::T* b,
                    int64_t first_row, int64_t rows, int64_t first_column, int64_t columns,
                    int64_t first_inner, int64_t inner) {
  using T = typename Tile::T;
  auto* out = reinterpret_cast<T*>(p.out);
  alignas(64) T tile[Tile::kRows * Tile::kColumns];
  for (int64_t c = 0; c < columns; c += Tile::kColumns) {
    const int64_t width = std::min<int64_t>(Tile::kColumns, columns - c);
    for (int64_t r = 0; r < rows; r += Tile::kRows) {
      const int64_t height = std::min<int64_t>(Tile::kRows, rows - r);
      T* at = out + (first_row + r) * p.columns + first_column + c;
      std::fill_n(tile, Tile::kRows * Tile::kColumns, T{0});
      if (first_inner > 0)
        for (int64_t i = 0; i < height; ++i)
          std::copy_n(at + i * p.columns, width, tile + i * Tile::kColumns);
      Tile::multiply(a + r * inner, b + c * inner, inner, tile);
      for (int64_t i = 0; i < height; ++i)
        std::copy_n(tile + i * Tile::kColumns, width, at + i * p.columns);
    }
  }
}

template <typename Tile>
void multiply_all(const MatmulProblem& p, ThreadPool& pool) {
  using T = typename Tile::T;
  if (p.inner == 0) std::fill_n(reinterpret_cast<T*>(p.out), p.rows * p.columns, T{0});
  const int64_t panels = (p.columns + Tile::kColumns - 1) / Tile::kColumns;
  const int64_t row_blocks = (p.rows + kBlockRows - 1) / kBlockRows;
  constexpr int64_t kPanelsAtOnce = kBlockColumns / Tile::kColumns;
  const int64_t column_blocks = (panels + kPanelsAtOnce - 1) / kPanelsAtOnce;
  std::vector<T> packed(
      static_cast<size_t>(panels * Tile::kColumns * std::min(p.inner, kBlockInner)));
  for (int64_t k = 0; k < p.inner; k += kBlockInner) {
    const int64_t inner = std::min(kBlockInner, p.inner - k);
    const int64_t grain = std::max<int64_t>(1, (1 << 14) / (inner * Tile::kColumns));
    pool.parallel_for(panels, grain, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        const int64_t column = i * Tile::kColumns;
        pack<T, Tile::kColumns>(p.b, p.type, p.b.column_stride, p.b.row_stride, column,
                                std::min<int64_t>(Tile::kColumns, p.columns - column), k, inner,
                                packed.data() + column * inner);
      }
    });
    // A worker with a whole block of rows packs it once.
    const int64_t blocks = row_blocks >= pool.size() ? column_blocks : 1;
    pool.parallel_for(row_blocks * column_blocks, blocks, [&](int64_t begin, int64_t end) {
      std::vector<T> block(static_cast<size_t>((kBlockRows + Tile::kRows) * inner));
      int64_t packed_row = -1;
      for (int64_t i = begin; i < end; ++i) {
        const int64_t row = i / column_blocks * kBlockRows;
        const int64_t column = i % column_blocks * kBlockColumns;
        const int64_t rows = std::min(kBlockRows, p.rows - row);
        if (row != packed_row)
          for (int64_t r = 0; r < rows; r += Tile::kRows)
            pack<T, Tile::kRows>(p.a, p.type, p.a.row_stride, p.a.column_stride, row + r,
                                 std::min<int64_t>(Tile::kRows, rows - r), k, inner,
                                 block.data() + r * inner);
        packed_row = row;
        multiply_block<Tile>(p, block.data(), packed.data() + column * inner, row, rows, column,
                             std::min(kBlockColumns, p.columns - column), k, inner);
      }
    });
  }
}

}  // namespace

void matmul_of(const MatmulProblem& problem, ThreadPool& pool) {
  if (problem.type == ElementType::kF64) return multiply_all<TileF64>(problem, pool);
  multiply_all<TileF32>(problem, pool);
}

}  // namespace HWY_NAMESPACE
}  // namespace veery
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace veery {

void matmul(const MatmulProblem& problem, Target target, ThreadPool& pool) {
  VEERY_FOR_F32_TARGET(target, matmul_of(problem, pool));
}

}  // namespace veery
#endif
