// attend_smem.h: work split and shared memory of attention.
#pragma once
#include "kernels/gpu/dialect/compat.h"

namespace veery::gpu {

VEERY_CONSTANT int kKvBlock = 128;           ///< positions of a KV block; threads of attend_split()
VEERY_CONSTANT int kMaxHeads = 4;            ///< query heads of a row that share a thread block
VEERY_CONSTANT int kDecodeThreads = 256;     ///< of attend_decode()
VEERY_CONSTANT int kMaxPrefillDims = 128;    ///< of keys and values in attend_prefill()
VEERY_CONSTANT int kPrefillQueries = 64;     ///< of a tile: token rows times heads
VEERY_CONSTANT int kQueriesPerWarp = 8;      ///< of attend_prefill()
VEERY_CONSTANT int kMmaQueriesPerWarp = 16;  ///< of attend_prefill_mma()
VEERY_CONSTANT int kPrefillMmaThreads = kPrefillQueries / kMmaQueriesPerWarp * 32;
VEERY_CONSTANT int kMaxKvStage = 140 << 10;  ///< bytes of a staged KV block

VEERY_GPU_HOST constexpr int shared_heads(int heads, int kv_heads) {
  const int group = heads / kv_heads;
  return group < kMaxHeads ? group : kMaxHeads;
}
/// Token rows of a tile.
VEERY_GPU_HOST constexpr int attend_prefill_rows(int heads, int kv_heads) {
  return kPrefillQueries / shared_heads(heads, kv_heads);
}
/// attend_prefill(): offsets in bytes.
struct AttendPrefillSmem {
  int keys, values, weights, mbarriers, bytes;
  int key_group;  ///< bytes of 16 positions, padded by 32 against bank conflicts
};
VEERY_GPU_HOST constexpr AttendPrefillSmem attend_prefill_smem(int key_dim, int value_dim) {
  AttendPrefillSmem p{};
  p.key_group = key_dim * 32 + 32;
  p.keys = key_dim * kPrefillQueries * 4;
  p.values = p.keys + 8 * p.key_group;
  p.weights = p.values + kKvBlock * value_dim * 2;
  p.mbarriers = p.weights +
                kPrefillQueries / kQueriesPerWarp * (kKvBlock * kQueriesPerWarp * 4 + kKvBlock * 4);
  p.bytes = p.mbarriers + 16;
  return p;
}

/// attend_prefill_mma(): offsets in bytes. Keys are stored as in the cache, but the halves of every
/// other four dimensions are swapped against bank conflicts. `query` and `value`: bytes of one row,
/// padded by 16.
struct AttendPrefillMmaSmem {
  int query, keys, values, value, bytes;
};
VEERY_GPU_HOST constexpr AttendPrefillMmaSmem attend_prefill_mma_smem(int key_dim, int value_dim) {
  AttendPrefillMmaSmem p{};
  p.query = key_dim * 2 + 16, p.value = value_dim * 2 + 16;
  p.keys = kPrefillQueries * p.query;
  p.values = p.keys + kKvBlock * key_dim * 2;
  p.bytes = p.values + kKvBlock * p.value;
  return p;
}

/// attend_split(): offsets in bytes of a staged KV block, which comes first in shared memory.
struct AttendStageSmem {
  int key_group, values, mbarrier, bytes;
};
VEERY_GPU_HOST constexpr AttendStageSmem attend_stage_smem(int key_dim, int value_dim,
                                                           int element) {
  AttendStageSmem p{};
  p.key_group = key_dim * 16 * element + 32;
  p.values = 8 * p.key_group;
  p.mbarrier = p.values + kKvBlock * value_dim * element;
  p.bytes = p.mbarrier + 16;
  return p;
}

}  // namespace veery::gpu
