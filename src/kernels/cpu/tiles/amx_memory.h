// amx_memory.h: weight types with tile kernels, and memory sizes of these kernels. Compiled for the
// baseline instruction set, because every processor calls it.
#pragma once
#include <algorithm>

#include "kernels/cpu/linear/product.h"
#include "kernels/cpu/tiles/amx_rows.h"

namespace veery {

inline constexpr int kTileFloats = kTileRows * kLanes;

/// Bytes of the minima of a block of 256: a tile, and dmin for each row of the panel.
inline constexpr int kTileUnit = kTileBytes + 64;
/// Bytes of an expanded block of 32: an int8 tile and d.
inline constexpr int kByteUnit = kByteTile + 64;
/// Bytes of an expanded block of 256: up to 16 tiles and d.
inline constexpr int kSuperTiles = 16;
inline constexpr int kSuperUnit = kSuperTiles * kTileBytes + 64;

/// Columns that are expanded at a time: one block of 256, or as many blocks of 32 as fit the L1
/// cache for two panels together with the rows.
inline constexpr int kSuperChunk = 256;
inline constexpr int kBlockChunk = 768;
inline constexpr int kChunkBytes = kSuperUnit;
static_assert(kBlockChunk / 32 * kByteUnit <= kChunkBytes);

/// Maximum panels of a batch and groups of a block of rows; their accumulators are in scratch.
inline constexpr int64_t kBatchPanels = 8;
inline constexpr int64_t kBlockGroups = 32;

/// Returns whether a type has tile kernels: all types with integer products except NVFP4, whose
/// blocks have two scales.
constexpr bool has_tiles(DType type) {
  switch (type) {
    case DType::kF32:
    case DType::kF16:
    case DType::kBF16:
    case DType::kMXFP8:
    case DType::kFP8_32:
    case DType::kFP8_128:
    case DType::kNVFP4: return false;
    default: return panel_format(type).block != 0;
  }
}

/// Memory of a worker for a batch of panels and a block of groups.
struct BatchMemory {
  std::byte* chunks;    ///< [2][kChunkBytes]
  std::byte* whole;     ///< TileKernels::begin() describes it
  float* accumulators;  ///< [kBatchPanels][kBlockGroups][16][16]

  BatchMemory(std::byte* scratch, int64_t cols)
      : chunks(scratch), whole(scratch + 2 * kChunkBytes) {
    accumulators = reinterpret_cast<float*>(whole + whole_bytes(cols));
  }
  static int64_t whole_bytes(int64_t cols) {
    return cols / 32 * kTileUnit + round_up(cols / 32, 64);
  }
  static int64_t bytes(int64_t cols) {
    return 2 * kChunkBytes + whole_bytes(cols) + kBatchPanels * kBlockGroups * kTileFloats * 4;
  }
  float* accumulator(int panel, int64_t group) const {
    return accumulators + (panel * kBlockGroups + group) * kTileFloats;
  }
};

/// Returns the bytes of RowScratch (amx_rows-inl.h).
inline int64_t row_scratch_bytes(const Product& p) {
  const int64_t outliers = kTileRows * outlier_limit(p.cols / 32) * int64_t{sizeof(OutlierBlock)};
  const int64_t row = std::max(activation_row_bytes(Activations::kPer32, p.cols),
                               activation_row_bytes(Activations::kPer256, p.cols));
  return row + outliers;
}

/// Returns the scratch bytes for quantising a group: RowScratch, and the f32 residuals of residual
/// quantisation.
inline int64_t quantise_scratch_bytes(const Product& p) {
  return round_up(row_scratch_bytes(p) + p.residual_bytes(kTileRows), 64);
}

/// Returns the bytes of a quantised group of rows.
inline int64_t group_bytes(const Product& p) {
  int64_t bytes = 0;
  for (const Activations kind : {Activations::kPer32, Activations::kPer256})
    if (p.needs[static_cast<int>(kind)]) bytes += TileLayout(kind, p.cols).bytes;
  return bytes;
}

}  // namespace veery
