// attend_places.h: how attention is shared out, for its kernels and for what launches them.
#pragma once
#include "kernels/gpu/dialect/compat.h"

namespace veery::gpu {

VEERY_CONSTANT int kBlock = 128;         ///< positions; threads of a block of attend.h
VEERY_CONSTANT int kMostHeads = 4;       ///< queries of a row that share a block of threads
VEERY_CONSTANT int kStepThreads = 256;   ///< of a block of attend_step()
VEERY_CONSTANT int kMostTileDims = 128;  ///< of keys and values, attend_tiles()
VEERY_CONSTANT int kTileQueries = 64;    ///< of a block of threads: rows times heads
VEERY_CONSTANT int kWarpQueries = 8;

VEERY_GPU_HOST constexpr int shared_heads(int heads, int kv_heads) {
  const int group = heads / kv_heads;
  return group < kMostHeads ? group : kMostHeads;
}
/// Rows of x of a tile.
VEERY_GPU_HOST constexpr int attend_tile_rows(int heads, int kv_heads) {
  return kTileQueries / shared_heads(heads, kv_heads);
}
/// What attend_tiles() has in shared memory, in bytes.
struct AttendPlaces {
  int keys, values, weights, mbarriers, bytes;
  int key_group;  ///< of 16 positions; 32 more than they take, for the banks
};
VEERY_GPU_HOST constexpr AttendPlaces attend_places(int key_dim, int value_dim) {
  AttendPlaces p{};
  p.key_group = key_dim * 32 + 32;
  p.keys = key_dim * kTileQueries * 4;
  p.values = p.keys + 8 * p.key_group;
  p.weights = p.values + kBlock * value_dim * 2;
  p.mbarriers = p.weights + kTileQueries / kWarpQueries * (kBlock * kWarpQueries * 4 + kBlock * 4);
  p.bytes = p.mbarriers + 16;
  return p;
}

VEERY_CONSTANT int kCoreTileQueries = 16;  ///< of a warp of attend_core_tiles()
VEERY_CONSTANT int kCoreTileThreads = kTileQueries / kCoreTileQueries * 32;
/// What attend_core_tiles() has in shared memory, in bytes: queries, keys as in the cache, but for
/// the halves of every other four dimensions, which change places for the banks, and values;
/// `query` and `value`: of a row, 16 left out for the banks.
struct CoreTilePlaces {
  int query, keys, values, value, bytes;
};
VEERY_GPU_HOST constexpr CoreTilePlaces core_tile_places(int key_dim, int value_dim) {
  CoreTilePlaces p{};
  p.query = key_dim * 2 + 16, p.value = value_dim * 2 + 16;
  p.keys = kTileQueries * p.query;
  p.values = p.keys + kBlock * key_dim * 2;
  p.bytes = p.values + kBlock * p.value;
  return p;
}

/// What attend_blocks() has in shared memory before all else: keys and values of a block of
/// positions, in bytes.
struct StagePlaces {
  int key_group, values, mbarrier, bytes;
};
VEERY_CONSTANT int kMostStage = 140 << 10;
VEERY_GPU_HOST constexpr StagePlaces stage_places(int key_dim, int value_dim, int element) {
  StagePlaces p{};
  p.key_group = key_dim * 16 * element + 32;
  p.values = 8 * p.key_group;
  p.mbarrier = p.values + kBlock * value_dim * element;
  p.bytes = p.mbarrier + 16;
  return p;
}

}  // namespace veery::gpu
