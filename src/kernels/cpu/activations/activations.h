// activations.h: memory layout of quantised activations: groups of up to 8 interleaved token rows.
//
// The weights of a linear are packed once into panels of 16 output rows (panels/panels.h). Each
// dispatch then quantises its activations into groups (row-inl.h), runs a microkernel on every
// pair of a panel and a group (codec/), and applies the epilogue (linear/epilogue.h). The weight
// type decides the kind of activations: int8 with one scale for 32 values (kPer32) or for 256
// values (kPer256), bf16 (kRounded, kPairs) or f32 (kFloat).
#pragma once
#include "kernels/cpu/panels/panels.h"
#include "kernels/dispatch.h"

namespace veery {

/// Maximum rows of a group. The elements of its w rows are interleaved, so that a microkernel
/// advances one pointer. Microkernels exist for w = 1, 2, 4 and 8. A group with fewer rows is
/// padded to w; the results of the padding are discarded.
inline constexpr int kGroupRows = 8;
inline constexpr int kSmallGroupRows = 4;

constexpr int group_width(int rows) { return rows <= 2 ? rows : rows <= 4 ? 4 : kGroupRows; }

/// An outlier block: 32 values that are much larger than the rest of their row, so that their
/// rounding to 8 bits would dominate the error of the row. It is quantised twice; `residual` holds
/// the quantised error of the first quantisation.
struct OutlierBlock {
  int32_t block;
  float scale;
  int32_t sum;
  int8_t residual[32];
};
/// A block is an outlier block if its largest magnitude exceeds kOutlierRatio times the mean of the
/// largest magnitudes of all blocks of its row.
inline constexpr float kOutlierRatio = 2.5F;
/// Maximum number of outlier blocks of a row with `blocks` blocks.
constexpr int64_t outlier_limit(int64_t blocks) { return blocks / 4 + 1; }

/// One group of w token rows. Only the arrays of its kind are set.
struct ActivationGroup {
  int8_t* quads = nullptr;           ///< [cols / 4][w][4]: values / scale, within +-127
  float* scale = nullptr;            ///< [blocks][w]
  float* moment = nullptr;           ///< kPer32: [blocks][w] scale * float(sum)
  int32_t* start = nullptr;          ///< kPer32: [3][blocks][w] -8, -16 and -128 times sum(quads)
  int32_t* extra = nullptr;          ///< kPer32: [w] number of outlier blocks
  OutlierBlock* outliers = nullptr;  ///< kPer32: [outlier_limit(blocks)][w] by ascending block
  int32_t* shift = nullptr;  ///< kPer256: [cols / 32][w], 0 to 3: a value is scale * 2^shift * quad
  int16_t* sums = nullptr;   ///< kPer256: [cols / 16][w], sums of 16 shifted values
  int16_t* sums32 = nullptr;  ///< kPer256: [cols / 32][w], sums of 32 shifted values
  /// [round_up(cols, 2)][w]. kFloat: the f32 values. kRounded: values rounded to bf16, stored as
  /// f32, the odd column of each pair before the even one. An odd number of columns is padded with
  /// a zero.
  float* values = nullptr;
  uint32_t* pairs = nullptr;  ///< kPairs: [(cols + 1) / 2][w], the even column in the lower half
};
// `sums` and `sums32` of a block of 256 follow the order of the scales in a panel. A strip is 32
// columns; a half is 4 strips. The order is: half, then (only in `sums`) t = 0, 1 for the first or
// second 16 columns of a strip, then the pair of strips (0, 2) before the pair (1, 3). The two sums
// of a pair of one row are adjacent: [half][t][pair][w][2].

constexpr int64_t round_up(int64_t n, int64_t to) { return (n + to - 1) / to * to; }

/// Returns the bytes of a group of one row; a group of w rows takes w times as many.
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

/// Returns the number of 4-byte words before the outlier blocks (if any) of a group of one row. In
/// a group of w rows, word i of row r is at offset i * w + r.
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

/// Returns the arrays of the group of w rows that begins at `base`.
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
