// activations.h: how rows of activations lie for the linear kernels: groups of up to 8 rows.
#pragma once
#include "kernels/cpu/panels/panels.h"
#include "kernels/dispatch.h"

namespace veery {

/// Most rows of a group. The elements of its w rows alternate, so that a kernel walks one pointer.
/// Kernels exist for w = 1, 2, 4 and 8; what a group has less is computed and thrown away.
inline constexpr int kGroupRows = 8;
inline constexpr int kSmallGroupRows = 4;

constexpr int group_width(int rows) { return rows <= 2 ? rows : rows <= 4 ? 4 : kGroupRows; }

/// A block of 32 whose values are so large that 8 bits with its scale would lose much of its row.
/// It is quantised twice: a second set of values holds the residual of the first.
struct OutlierBlock {
  int32_t block;
  float scale;
  int32_t sum;
  int8_t residual[32];
};
/// A block is an outlier if its largest magnitude is over kOutlierRatio times the mean of those of
/// all blocks of its row.
inline constexpr float kOutlierRatio = 2.5F;
constexpr int64_t outlier_limit(int64_t blocks) { return blocks / 4 + 1; }

/// One group of w rows. Only the arrays of its kind are set.
struct ActivationGroup {
  int8_t* quads = nullptr;           ///< [cols / 4][w][4]: values / scale, within +-127
  float* scale = nullptr;            ///< [blocks][w]
  float* moment = nullptr;           ///< kPer32: [blocks][w] scale * float(sum)
  int32_t* start = nullptr;          ///< kPer32: [3][blocks][w] -8, -16 and -128 times the sum
  int32_t* extra = nullptr;          ///< kPer32: [w] number of outlier blocks
  OutlierBlock* outliers = nullptr;  ///< kPer32: [outlier_limit(blocks)][w] in order
  int32_t* shift = nullptr;  ///< kPer256: [cols / 32][w], 0 to 3: a value is scale * 2^shift * quad
  int16_t* sums = nullptr;   ///< kPer256: [cols / 16][w], of 16 values, shifted
  int16_t* sums32 = nullptr;  ///< kPer256: [cols / 32][w], of 32 values, shifted
  /// kFloat: [cols][w]. kRounded: the same of bf16 values, the odd column of a pair before the even
  /// one. An odd number of columns is followed by a zero.
  float* values = nullptr;
  uint32_t* pairs = nullptr;  ///< kPairs: [(cols + 1) / 2][w], the even column in the lower half
};
// The sums of a block of 256 are in the order of the scales of a panel, in pairs: half, (t = 0, 1:
// first or second 16 of a strip,) strips (0, 2), strips (1, 3); a pair of one row is together:
// [..][pair][w][2].

constexpr int64_t round_up(int64_t n, int64_t to) { return (n + to - 1) / to * to; }

/// Bytes of a group of one row; one of w rows takes w times as many.
constexpr int64_t activation_row_bytes(Activations kind, int64_t cols) {
  switch (kind) {
    case Activations::kFloat:
    case Activations::kRounded: return round_up(cols * 4, 64);
    case Activations::kPairs: return round_up(cols * 2, 64);
    case Activations::kPer32:
      return round_up(
          cols + cols / 32 * 20 + 4 + outlier_limit(cols / 32) * int64_t{sizeof(OutlierBlock)}, 64);
    case Activations::kPer256:
      return round_up(cols + cols / 256 * 4 + cols / 32 * 4 + cols / 16 * 2 + cols / 32 * 2, 64);
  }
  return 0;
}

/// Words of 4 bytes before the outlier blocks (if any) of a group of one row. They are the words of
/// a row in every group: word i of row r of w lies at i * w + r.
constexpr int64_t activation_words(Activations kind, int64_t cols) {
  switch (kind) {
    case Activations::kFloat:
    case Activations::kRounded: return round_up(cols, 2);
    case Activations::kPairs: return (cols + 1) / 2;
    case Activations::kPer32: return cols / 4 + cols / 32 * 5 + 1;
    case Activations::kPer256: return cols / 4 + cols / 256 + cols / 32 * 2 + cols / 64;
  }
  return 0;
}

inline ActivationGroup activation_group(Activations kind, std::byte* base, int64_t cols, int w) {
  ActivationGroup g;
  const auto take = [&]<typename T>(T*& array, int64_t count) {
    array = reinterpret_cast<T*>(base);
    base += count * w * static_cast<int64_t>(sizeof(T));
  };
  switch (kind) {
    case Activations::kFloat:
    case Activations::kRounded: take(g.values, round_up(cols, 2)); break;
    case Activations::kPairs: take(g.pairs, (cols + 1) / 2); break;
    case Activations::kPer32:
      take(g.quads, cols);
      take(g.scale, cols / 32);
      take(g.moment, cols / 32);
      take(g.start, cols / 32 * 3);
      take(g.extra, 1);
      take(g.outliers, outlier_limit(cols / 32));
      break;
    case Activations::kPer256:
      take(g.quads, cols);
      take(g.scale, cols / 256);
      take(g.shift, cols / 32);
      take(g.sums, cols / 16);
      take(g.sums32, cols / 32);
      break;
  }
  return g;
}

}  // namespace veery
