// amx_rows.h: memory layout of quantised activations for tile kernels: groups of 16 token rows.
#pragma once
#include "kernels/cpu/activations/activations.h"
#include "kernels/cpu/tiles/amx.h"

namespace veery {

/// 16 token rows in tiles of 32 columns. kPer32: int8 tiles. kPer256: bf16 tiles that hold integers
/// exactly; the middle two of every four columns are exchanged, (0, 2, 1, 3), as in the tiles of
/// weights (amx_panels-inl.h). Missing rows are zeros.
struct TileGroup {
  const std::byte* tiles = nullptr;  ///< [cols / 32] tiles; kPer256: values * 2^shift
  bool half = false;                 ///< the group has at most 8 rows
  const float* scale = nullptr;      ///< [blocks][16]
  // Only for kPer32:
  const float* moment = nullptr;  ///< [blocks][16] scale * float(sum)
  /// Residuals of outlier blocks (activations.h). For each block that is an outlier block of at
  /// least one row, in ascending order: a tile, 16 scales and the block index. Rows for which the
  /// block is not an outlier block are zeros.
  const std::byte* residual = nullptr;
  const float* residual_scale = nullptr;
  const int32_t* residual_block = nullptr;  ///< [blocks] indices; element `blocks` is their number
  // Only for kPer256:
  /// [blocks] tiles. Pair p of a row is the sum of columns 16 p to 16 p + 15, split into a multiple
  /// of 256 and the remainder, so that both are exact in bf16.
  const std::byte* sums = nullptr;
};

/// Returns the bytes of a tile of token rows.
constexpr int64_t row_tile_bytes(Activations kind) {
  return kind == Activations::kPer32 ? kByteTile : kTileBytes;
}

/// Offsets of the arrays of a group.
struct TileLayout {
  int64_t scale = 0, moment = 0, residual = 0, residual_scale = 0, residual_block = 0, sums = 0,
          bytes = 0;

  TileLayout(Activations kind, int64_t cols) {
    const auto take = [&](int64_t& offset, int64_t size) {
      offset = bytes;
      bytes += round_up(size, 64);
    };
    const int64_t blocks = cols / (kind == Activations::kPer32 ? 32 : 256);
    bytes = cols / 32 * row_tile_bytes(kind);
    take(scale, blocks * kTileRows * 4);
    if (kind == Activations::kPer32) {
      take(moment, blocks * kTileRows * 4);
      take(residual, blocks * kByteTile);
      take(residual_scale, blocks * kTileRows * 4);
      take(residual_block, (blocks + 1) * 4);
    } else {
      take(sums, blocks * kTileBytes);
    }
  }
};

inline TileGroup tile_group(Activations kind, const std::byte* base, int64_t cols) {
  const TileLayout at(kind, cols);
  TileGroup g;
  g.tiles = base;
  g.scale = reinterpret_cast<const float*>(base + at.scale);
  if (kind == Activations::kPer32) {
    g.moment = reinterpret_cast<const float*>(base + at.moment);
    g.residual = base + at.residual;
    g.residual_scale = reinterpret_cast<const float*>(base + at.residual_scale);
    g.residual_block = reinterpret_cast<const int32_t*>(base + at.residual_block);
  } else {
    g.sums = base + at.sums;
  }
  return g;
}

}  // namespace veery
