// attend_flash_smem.h: work split and shared memory of attend_flash(), in bytes.
#pragma once
#include "kernels/gpu/dialect/compat.h"

namespace veery::gpu {

VEERY_CONSTANT int kFlashQueries = 128;     ///< of a thread block: token rows times heads
VEERY_CONSTANT int kFlashTilesPerWarp = 2;  ///< of 16 queries per warp
VEERY_CONSTANT int kFlashThreads = kFlashQueries / (16 * kFlashTilesPerWarp) * kWarp;
VEERY_CONSTANT int kFlashPositions = 64;  ///< of a KV stage
VEERY_CONSTANT int kFlashStages = 2;      ///< KV stages in flight
struct AttendFlashSmem {
  int query, keys, value, values, stage, bytes;  ///< query, value: bytes of one row
};
VEERY_GPU_HOST constexpr AttendFlashSmem attend_flash_smem(int key_dim, int value_dim) {
  AttendFlashSmem p{};
  // Rows are padded by 16 bytes against bank conflicts.
  p.query = 2 * key_dim + 16, p.value = 2 * value_dim + 16;
  p.keys = kFlashQueries * p.query;
  p.values = 2 * key_dim * kFlashPositions;
  p.stage = p.values + kFlashPositions * p.value;
  p.bytes = p.keys + kFlashStages * p.stage;
  return p;
}

}  // namespace veery::gpu
