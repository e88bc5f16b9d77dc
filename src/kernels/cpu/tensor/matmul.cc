#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/tensor/matmul.cc"
#include "kernels/cpu/simd/foreach_f32_target.h"
//
#include "kernels/cpu/simd/simd-inl.h"
//
#include <algorithm>
#include <cmath>
#include <cstring>
#include <vector>

#include "dtype/half.h"
#include "kernels/cpu/simd/bf16_dot.h"
#include "kernels/cpu/simd/flush_subnormals.h"
#include "kernels/cpu/tensor/matmul.h"

HWY_BEFORE_NAMESPACE();
namespace veery {
namespace HWY_NAMESPACE {
namespace {

// A block of `a` (kBlockRows x kBlockInner) stays in L2, a panel of `b` in L1. The accumulators of
// a tile of kRows x kColumns fill the registers.
constexpr int64_t kBlockInner = 320;
constexpr int64_t kBlockRows = 96;
constexpr int64_t kBlockColumns = 1024;

// Elements in memory.
struct F16Bits {
  uint16_t bits;
};
struct BF16Bits {
  uint16_t bits;
};
HWY_INLINE float number(float x) { return x; }
HWY_INLINE double number(double x) { return x; }
HWY_INLINE float number(F16Bits x) { return f16_to_f32(x.bits); }
HWY_INLINE float number(BF16Bits x) { return bf16_to_f32(x.bits); }

/// The arithmetic of most tiles.
struct UsualMode {};

// A tile multiplies panels: lines (rows of a, columns of b) packed to [steps][lines]. Packed is
// what one step takes of a line, packed(read, step) makes it of elements read(k), which are 0
// beyond the last. Mode is the arithmetic.

/// acc += a b in f32, in the order of the inner axis.
struct TileF32 {
  using Out = float;
  using Packed = float;
  using Mode = UsualMode;
#if HWY_TARGET == HWY_AVX3
  static constexpr int kRows = 12, kVectors = 2;
#elif HWY_TARGET == HWY_AVX2 || HWY_TARGET == HWY_NEON
  static constexpr int kRows = 6, kVectors = 1;
#else
  static constexpr int kRows = 4, kVectors = 1;
#endif
  static constexpr int kColumns = 16 * kVectors;

  static int64_t steps(int64_t inner) { return inner; }
  template <typename T>
  static HWY_INLINE float packed(const T* line, int64_t stride, int64_t step) {
    return number(line[step * stride]);
  }
  // `steps` steps on packed panels a [steps][kRows], b [steps][kColumns].
  static HWY_INLINE void multiply(const float* a, const float* b, int64_t steps, bool adds,
                                  float* out, int64_t stride) {
    multiply_panels<TileF32>(a, b, steps, adds, out, stride);
  }
  static HWY_INLINE F32 value(float a) { return set(a); }
  static HWY_INLINE F32 values(const float* b) { return load(b); }
  static HWY_INLINE F32 add_product(F32 a, F32 b, F32 acc) { return fma(a, b, acc); }

  template <typename Tile>
  static HWY_INLINE void multiply_panels(const typename Tile::Packed* a,
                                         const typename Tile::Packed* b, int64_t steps, bool adds,
                                         float* out, int64_t stride) {
    F32 acc[kRows][kVectors];
    unroll<kRows>([&](auto r) {
      unroll<kVectors>(
          [&](auto v) { acc[r()][v()] = adds ? load(out + r() * stride + v() * 16) : zero(); });
    });
    for (int64_t k = 0; k < steps; ++k) {
      decltype(Tile::values(b)) row[kVectors];
      unroll<kVectors>([&](auto v) { row[v()] = Tile::values(b + k * kColumns + v() * 16); });
      unroll<kRows>([&](auto r) {
        const auto x = Tile::value(a[k * kRows + r()]);
        unroll<kVectors>(
            [&](auto v) { acc[r()][v()] = Tile::add_product(x, row[v()], acc[r()][v()]); });
      });
    }
    unroll<kRows>([&](auto r) {
      unroll<kVectors>([&](auto v) { store(out + r() * stride + v() * 16, acc[r()][v()]); });
    });
  }
};

/// Emulates VDPBF16PS: the odd element of a pair first, subnormal numbers flushed to 0. Pairs are
/// packed in that order.
struct TileBF16 : TileF32 {
  using Mode = FlushSubnormals;
  static int64_t steps(int64_t inner) { return inner + inner % 2; }
  template <typename T>
  static HWY_INLINE float packed(const T* line, int64_t stride, int64_t step) {
    return number(line[(step ^ 1) * stride]);
  }
};

#if HWY_TARGET == HWY_AVX3
/// Two bf16 in each lane, multiplied by VDPBF16PS.
struct TileDotBF16 : TileF32 {
  using Packed = int32_t;
  static int64_t steps(int64_t inner) { return (inner + 1) / 2; }
  static HWY_INLINE int32_t packed(const BF16Bits* line, int64_t stride, int64_t step) {
    const BF16Bits* at = line + 2 * step * stride;
    int32_t both;
    if (stride == 1)
      std::memcpy(&both, at, sizeof both);
    else
      both = static_cast<int32_t>(at[0].bits | uint32_t{at[stride].bits} << 16);
    return both;
  }
  static HWY_INLINE void multiply(const int32_t* a, const int32_t* b, int64_t steps, bool adds,
                                  float* out, int64_t stride) {
    multiply_panels<TileDotBF16>(a, b, steps, adds, out, stride);
  }
  static HWY_INLINE I32 value(int32_t a) { return set(a); }
  static HWY_INLINE I32 values(const int32_t* b) { return load_int(b); }
  static HWY_INLINE F32 add_product(I32 a, I32 b, F32 acc) { return dot2_bf16(acc, a, b); }
};
#else
using TileDotBF16 = TileBF16;
#endif

struct TileF64 {
  using Out = double;
  using Packed = double;
  using Mode = UsualMode;
  static constexpr int kRows = 4, kColumns = 8;
  static int64_t steps(int64_t inner) { return inner; }
  static HWY_INLINE double packed(const double* line, int64_t stride, int64_t step) {
    return line[step * stride];
  }
  static HWY_INLINE void multiply(const double* a, const double* b, int64_t steps, bool adds,
                                  double* out, int64_t stride) {
    double acc[kRows][kColumns] = {};
    for (int r = 0; r < kRows && adds; ++r) std::copy_n(out + r * stride, kColumns, acc[r]);
    for (int64_t k = 0; k < steps; ++k)
      for (int r = 0; r < kRows; ++r)
        for (int c = 0; c < kColumns; ++c)
          acc[r][c] = std::fma(a[k * kRows + r], b[k * kColumns + c], acc[r][c]);
    for (int r = 0; r < kRows; ++r) std::copy_n(acc[r], kColumns, out + r * stride);
  }
};

// Packs `count` lines of `inner` elements to [steps][kLines]; lines that are missing are zeros.
template <typename Tile, int kLines, typename T>
HWY_INLINE void pack_strided(const T* from, int64_t line_stride, int64_t inner_stride,
                             int64_t count, int64_t inner, typename Tile::Packed* to) {
  constexpr int64_t kMostAtOnce = 2;  // elements that a step takes
  const int64_t whole = inner - inner % kMostAtOnce, steps = Tile::steps(whole);
  const auto pack_one = [&](int64_t i, int64_t step) {
    to[step * kLines + i] = Tile::packed(from + i * line_stride, inner_stride, step);
  };
  if (line_stride == 1) {
    for (int64_t step = 0; step < steps; ++step)
      for (int64_t i = 0; i < count; ++i) pack_one(i, step);
  } else {
    for (int64_t i = 0; i < count; ++i)
      for (int64_t step = 0; step < steps; ++step) pack_one(i, step);
  }
  if (whole < inner)
    for (int64_t i = 0; i < count; ++i) {
      const T last[kMostAtOnce] = {from[i * line_stride + whole * inner_stride], T{}};
      for (int64_t step = steps; step < Tile::steps(inner); ++step)
        to[step * kLines + i] = Tile::packed(last, 1, step - steps);
    }
  for (int64_t step = 0; step < Tile::steps(inner) && count < kLines; ++step)
    std::fill(to + step * kLines + count, to + (step + 1) * kLines, typename Tile::Packed{});
}
template <typename Tile, int kLines, typename T>
void pack(const std::byte* data, int64_t offset, int64_t line_stride, int64_t inner_stride,
          int64_t count, int64_t inner, typename Tile::Packed* to) {
  const T* from = reinterpret_cast<const T*>(data) + offset;
  if (line_stride == 1)
    pack_strided<Tile, kLines>(from, 1, inner_stride, count, inner, to);
  else if (inner_stride == 1)
    pack_strided<Tile, kLines>(from, line_stride, 1, count, inner, to);
  else
    pack_strided<Tile, kLines>(from, line_stride, inner_stride, count, inner, to);
}

/// The product of matrices of T in blocks.
template <typename Tile, typename T>
class Blocks {
 public:
  Blocks(const MatmulProblem& problem, ThreadPool& pool) : p_(problem), pool_(pool) {}
  void multiply() {
    if (p_.inner == 0) std::fill_n(out(), p_.rows * p_.columns, Out{0});
    packed_.resize(
        static_cast<size_t>(panels() * kColumns * Tile::steps(std::min(p_.inner, kBlockInner))));
    for (int64_t k = 0; k < p_.inner; k += kBlockInner) {
      const int64_t inner = std::min(kBlockInner, p_.inner - k);
      pack_columns(k, inner);
      multiply_rows(k, inner);
    }
  }

 private:
  using Out = typename Tile::Out;
  using Packed = typename Tile::Packed;
  static constexpr int kRows = Tile::kRows, kColumns = Tile::kColumns;

  Out* out() const { return reinterpret_cast<Out*>(p_.out); }
  int64_t panels() const { return (p_.columns + kColumns - 1) / kColumns; }

  void pack_columns(int64_t first_inner, int64_t inner) {
    const int64_t grain = std::max<int64_t>(1, (1 << 14) / (inner * kColumns));
    pool_.parallel_for(panels(), grain, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        const int64_t column = i * kColumns;
        pack<Tile, kColumns, T>(
            p_.b.data, column * p_.b.column_stride + first_inner * p_.b.row_stride,
            p_.b.column_stride, p_.b.row_stride, std::min<int64_t>(kColumns, p_.columns - column),
            inner, packed_.data() + column * Tile::steps(inner));
      }
    });
  }
  void pack_rows(int64_t row, int64_t rows, int64_t first_inner, int64_t inner, Packed* to) const {
    for (int64_t r = 0; r < rows; r += kRows)
      pack<Tile, kRows, T>(p_.a.data,
                           (row + r) * p_.a.row_stride + first_inner * p_.a.column_stride,
                           p_.a.row_stride, p_.a.column_stride, std::min<int64_t>(kRows, rows - r),
                           inner, to + r * Tile::steps(inner));
  }
  void multiply_rows(int64_t first_inner, int64_t inner) {
    const int64_t row_blocks = (p_.rows + kBlockRows - 1) / kBlockRows;
    constexpr int64_t kPanelsAtOnce = kBlockColumns / kColumns;
    const int64_t column_blocks = (panels() + kPanelsAtOnce - 1) / kPanelsAtOnce;
    // A worker with a whole block of rows packs it once.
    const int64_t grain = row_blocks >= pool_.size() ? column_blocks : 1;
    pool_.parallel_for(row_blocks * column_blocks, grain, [&](int64_t begin, int64_t end) {
      std::vector<Packed> block(static_cast<size_t>((kBlockRows + kRows) * Tile::steps(inner)));
      int64_t packed_row = -1;
      for (int64_t i = begin; i < end; ++i) {
        const int64_t row = i / column_blocks * kBlockRows;
        const int64_t rows = std::min(kBlockRows, p_.rows - row);
        if (row != packed_row) pack_rows(row, rows, first_inner, inner, block.data());
        packed_row = row;
        multiply_block(block.data(), row, rows, i % column_blocks * kBlockColumns,
                       Tile::steps(inner), first_inner > 0);
      }
    });
  }
  // Multiplies one packed block of rows with the panels of b from `first_column` on.
  void multiply_block(const Packed* a, int64_t first_row, int64_t rows, int64_t first_column,
                      int64_t steps, bool adds) const {
    const int64_t columns = std::min(kBlockColumns, p_.columns - first_column);
    const Packed* b = packed_.data() + first_column * steps;
    [[maybe_unused]] const typename Tile::Mode mode;
    for (int64_t c = 0; c < columns; c += kColumns)
      for (int64_t r = 0; r < rows; r += kRows) {
        Out* at = out() + (first_row + r) * p_.columns + first_column + c;
        if (c + kColumns <= columns && r + kRows <= rows)
          Tile::multiply(a + r * steps, b + c * steps, steps, adds, at, p_.columns);
        else
          multiply_edge(a + r * steps, b + c * steps, steps, adds, at,
                        std::min<int64_t>(kRows, rows - r),
                        std::min<int64_t>(kColumns, columns - c));
      }
  }
  // A tile of which only `height` rows and `width` columns exist.
  void multiply_edge(const Packed* a, const Packed* b, int64_t steps, bool adds, Out* at,
                     int64_t height, int64_t width) const {
    alignas(64) Out tile[kRows * kColumns] = {};
    for (int64_t i = 0; i < height && adds; ++i)
      std::copy_n(at + i * p_.columns, width, tile + i * kColumns);
    Tile::multiply(a, b, steps, adds, tile, kColumns);
    for (int64_t i = 0; i < height; ++i)
      std::copy_n(tile + i * kColumns, width, at + i * p_.columns);
  }

  const MatmulProblem& p_;
  ThreadPool& pool_;
  std::vector<Packed> packed_;
};

}  // namespace

void matmul_of(const MatmulProblem& problem, bool has_bf16_dot, ThreadPool& pool) {
  switch (problem.type) {
    case ElementType::kF64: return Blocks<TileF64, double>(problem, pool).multiply();
    case ElementType::kF16: return Blocks<TileF32, F16Bits>(problem, pool).multiply();
    case ElementType::kBF16:
      if (has_bf16_dot) return Blocks<TileDotBF16, BF16Bits>(problem, pool).multiply();
      return Blocks<TileBF16, BF16Bits>(problem, pool).multiply();
    default: return Blocks<TileF32, float>(problem, pool).multiply();
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace veery
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace veery {

void matmul(const MatmulProblem& problem, Target target, ThreadPool& pool) {
  VEERY_FOR_F32_TARGET(target, matmul_of(problem, uses_bf16_dot(target), pool));
}

}  // namespace veery
#endif
