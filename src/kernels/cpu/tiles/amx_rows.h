// amx_rows.h: how rows of activations lie for the kernels on tiles: groups of 16 rows.
#pragma once
#include "kernels/cpu/activations/activations.h"
#include "kernels/cpu/tiles/amx.h"

namespace veery {

/// 16 rows in tiles that have 32 columns of each row: of kPer32 the bytes, of kPer256 bf16. In the
/// latter, in each four columns the middle two are exchanged, (0, 2, 1, 3), as in the tiles of
/// weights (amx_panels-inl.h), and what a tile holds is integers, exactly. Rows past the last are
/// zeros.
struct TileGroup {
  const std::byte* tiles = nullptr;  ///< [cols / 32] tiles: of kPer256 values * 2^shift
  bool half = false;                 ///< there are 8 rows at most
  const float* scale = nullptr;      ///< [blocks][16]
  // kPer32:
  const float* moment = nullptr;  ///< [blocks][16] scale * float(sum)
  /// Residuals of outlier blocks (activations.h): for each block that is one in one of the rows,
  /// in order, a tile, 16 scales and its index; zeros in the rows where it is none.
  const std::byte* residual = nullptr;
  const float* residual_scale = nullptr;
  const int32_t* residual_block = nullptr;  ///< [blocks], then their number
  // kPer256:
  const std::byte* sums = nullptr;  ///< [blocks] tiles: pair p of a row is the sum of columns 16 p
                                    ///< to 16 p + 15 as a multiple of 256 and what is left
};

/// Bytes of a tile of rows.
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
