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

#ifndef VEERY_KERNELS_CPU_TENSOR_MATMUL_KERNELS
#define VEERY_KERNELS_CPU_TENSOR_MATMUL_KERNELS
namespace veery {
namespace {

// A block of `a` (kBlockRows x kBlockInner) stays in L2, a panel of `b` in L1.
constexpr int64_t kBlockInner = 320;
constexpr int64_t kBlockRows = 96;
constexpr int64_t kBlockColumns = 1024;

/// A part of the inner axis.
struct InnerPart {
  int64_t first = 0, size = 0;
  std::byte* panels = nullptr;  ///< the packed part of `b`
};

/// The functions of one instruction set and type. A tile of `rows` x `columns` elements of
/// `out_bytes` is computed at once. A step takes `packed_bytes` of each row and column.
struct MatmulKernels {
  int64_t rows, columns, packed_bytes, out_bytes;
  int64_t (*steps)(int64_t inner);
  /// Packs panels [begin, end) of `b`, of `columns` columns each.
  void (*pack)(const MatmulProblem&, const InnerPart&, int64_t begin, int64_t end);
  /// Computes blocks [begin, end) of the result, counted along its rows. `scratch`: for kBlockRows
  /// and `rows` packed rows of `a`.
  void (*multiply)(const MatmulProblem&, const InnerPart&, int64_t begin, int64_t end,
                   std::byte* scratch);
};

}  // namespace
}  // namespace veery
#endif

HWY_BEFORE_NAMESPACE();
namespace veery {
namespace HWY_NAMESPACE {
namespace {

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

/// acc += a b in f32, in the order of the inner axis. The accumulators of a tile fill the
/// registers.
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

  // A function of its own: the compiler inlines the lambdas of a small function only.
  template <typename Tile>
  static HWY_NOINLINE void multiply_panels(const typename Tile::Packed* a,
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

/// The product of matrices of T in blocks, for a part of the inner axis.
template <typename Tile, typename T>
class Blocks {
 public:
  Blocks(const MatmulProblem& problem, const InnerPart& part)
      : p_(problem), part_(part), steps_(Tile::steps(part.size)) {}

  void pack_columns(int64_t begin, int64_t end) const {
    for (int64_t i = begin; i < end; ++i) {
      const int64_t column = i * kColumns;
      HWY_NAMESPACE::pack<Tile, kColumns, T>(
          p_.b.data, column * p_.b.column_stride + part_.first * p_.b.row_stride,
          p_.b.column_stride, p_.b.row_stride, std::min<int64_t>(kColumns, p_.columns - column),
          part_.size, panels() + column * steps_);
    }
  }
  void multiply_blocks(int64_t begin, int64_t end, typename Tile::Packed* block) const {
    const int64_t column_blocks = (p_.columns + kBlockColumns - 1) / kBlockColumns;
    int64_t packed_row = -1;
    for (int64_t i = begin; i < end; ++i) {
      const int64_t row = i / column_blocks * kBlockRows;
      const int64_t rows = std::min(kBlockRows, p_.rows - row);
      if (row != packed_row) pack_rows(row, rows, block);
      packed_row = row;
      multiply_block(block, row, rows, i % column_blocks * kBlockColumns);
    }
  }

 private:
  using Out = typename Tile::Out;
  using Packed = typename Tile::Packed;
  static constexpr int kRows = Tile::kRows, kColumns = Tile::kColumns;

  Out* out() const { return reinterpret_cast<Out*>(p_.out); }
  Packed* panels() const { return reinterpret_cast<Packed*>(part_.panels); }

  void pack_rows(int64_t row, int64_t rows, Packed* to) const {
    for (int64_t r = 0; r < rows; r += kRows)
      HWY_NAMESPACE::pack<Tile, kRows, T>(
          p_.a.data, (row + r) * p_.a.row_stride + part_.first * p_.a.column_stride,
          p_.a.row_stride, p_.a.column_stride, std::min<int64_t>(kRows, rows - r), part_.size,
          to + r * steps_);
  }
  // Multiplies one packed block of rows with the panels of b from `first_column` on.
  void multiply_block(const Packed* a, int64_t first_row, int64_t rows,
                      int64_t first_column) const {
    const int64_t columns = std::min(kBlockColumns, p_.columns - first_column);
    const Packed* b = panels() + first_column * steps_;
    [[maybe_unused]] const typename Tile::Mode mode;
    for (int64_t c = 0; c < columns; c += kColumns)
      for (int64_t r = 0; r < rows; r += kRows) {
        Out* at = out() + (first_row + r) * p_.columns + first_column + c;
        if (c + kColumns <= columns && r + kRows <= rows)
          Tile::multiply(a + r * steps_, b + c * steps_, steps_, adds(), at, p_.columns);
        else
          multiply_edge(a + r * steps_, b + c * steps_, at, std::min<int64_t>(kRows, rows - r),
                        std::min<int64_t>(kColumns, columns - c));
      }
  }
  // A tile of which only `height` rows and `width` columns exist.
  void multiply_edge(const Packed* a, const Packed* b, Out* at, int64_t height,
                     int64_t width) const {
    alignas(64) Out tile[kRows * kColumns] = {};
    for (int64_t i = 0; i < height && adds(); ++i)
      std::copy_n(at + i * p_.columns, width, tile + i * kColumns);
    Tile::multiply(a, b, steps_, adds(), tile, kColumns);
    for (int64_t i = 0; i < height; ++i)
      std::copy_n(tile + i * kColumns, width, at + i * p_.columns);
  }
  bool adds() const { return part_.first > 0; }

  const MatmulProblem& p_;
  const InnerPart& part_;
  int64_t steps_;
};

template <typename Tile>
int64_t steps_of(int64_t inner) {
  return Tile::steps(inner);
}
template <typename Tile, typename T>
void pack_columns(const MatmulProblem& p, const InnerPart& part, int64_t begin, int64_t end) {
  Blocks<Tile, T>(p, part).pack_columns(begin, end);
}
template <typename Tile, typename T>
void multiply_blocks(const MatmulProblem& p, const InnerPart& part, int64_t begin, int64_t end,
                     std::byte* scratch) {
  Blocks<Tile, T>(p, part).multiply_blocks(begin, end,
                                           reinterpret_cast<typename Tile::Packed*>(scratch));
}
template <typename Tile, typename T>
constexpr MatmulKernels kernels_for() {
  return {Tile::kRows,
          Tile::kColumns,
          sizeof(typename Tile::Packed),
          sizeof(typename Tile::Out),
          steps_of<Tile>,
          pack_columns<Tile, T>,
          multiply_blocks<Tile, T>};
}

}  // namespace

// In the order of form_of().
constexpr MatmulKernels kMatmulKernels[] = {
    kernels_for<TileF32, float>(), kernels_for<TileF64, double>(), kernels_for<TileF32, F16Bits>(),
    kernels_for<TileBF16, BF16Bits>(), kernels_for<TileDotBF16, BF16Bits>()};

}  // namespace HWY_NAMESPACE
}  // namespace veery
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace veery {
namespace {

// The place in kMatmulKernels.
size_t form_of(ElementType type, Target target) {
  switch (type) {
    case ElementType::kF64: return 1;
    case ElementType::kF16: return 2;
    case ElementType::kBF16: return uses_bf16_dot(target) ? 4 : 3;
    default: return 0;
  }
}

/// A product in parts of the inner axis.
class Product {
 public:
  Product(const MatmulProblem& problem, const MatmulKernels& kernels, ThreadPool& pool)
      : p_(problem),
        kernels_(kernels),
        pool_(pool),
        panels_((problem.columns + kernels.columns - 1) / kernels.columns) {}

  void run() const {
    if (p_.inner == 0)
      std::memset(p_.out, 0, static_cast<size_t>(p_.rows * p_.columns * kernels_.out_bytes));
    std::vector<std::byte> packed(
        packed_bytes(panels_ * kernels_.columns, std::min(p_.inner, kBlockInner)));
    for (int64_t k = 0; k < p_.inner; k += kBlockInner) {
      const InnerPart part{k, std::min(kBlockInner, p_.inner - k), packed.data()};
      pack_columns(part);
      multiply(part);
    }
  }

 private:
  size_t packed_bytes(int64_t lines, int64_t inner) const {
    return static_cast<size_t>(lines * kernels_.steps(inner) * kernels_.packed_bytes);
  }
  void pack_columns(const InnerPart& part) const {
    const int64_t grain = std::max<int64_t>(1, (1 << 14) / (part.size * kernels_.columns));
    pool_.parallel_for(panels_, grain,
                       [&](int64_t begin, int64_t end) { kernels_.pack(p_, part, begin, end); });
  }
  void multiply(const InnerPart& part) const {
    const int64_t row_blocks = (p_.rows + kBlockRows - 1) / kBlockRows;
    const int64_t column_blocks = (p_.columns + kBlockColumns - 1) / kBlockColumns;
    // A worker with a whole block of rows packs it once.
    const int64_t grain = row_blocks >= pool_.size() ? column_blocks : 1;
    pool_.parallel_for(row_blocks * column_blocks, grain, [&](int64_t begin, int64_t end) {
      std::vector<std::byte> scratch(packed_bytes(kBlockRows + kernels_.rows, part.size));
      kernels_.multiply(p_, part, begin, end, scratch.data());
    });
  }

  const MatmulProblem& p_;
  const MatmulKernels& kernels_;
  ThreadPool& pool_;
  int64_t panels_;
};

}  // namespace

void matmul(const MatmulProblem& problem, Target target, ThreadPool& pool) {
  if (problem.rows == 0 || problem.columns == 0) return;
  const MatmulKernels* kernels = VEERY_FOR_F32_TARGET(target, kMatmulKernels);
  Product(problem, kernels[form_of(problem.type, target)], pool).run();
}

}  // namespace veery
#endif
