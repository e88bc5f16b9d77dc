// relaxed_arguments.h: what the kernels of functions/relaxed are given, whose bits are free.
#pragma once
#include "kernels/gpu/params/params.h"

namespace veery::gpu {

VEERY_CONSTANT int kExpandColumns = 128;  ///< of a panel that a block of threads has

/// A weight as bf16, row after row.
struct ExpandArguments {
  Weight weight;
  VEERY_DEVICE uint16_t* out;  ///< [rows][cols]
};

/// Rows of x, normalised where there is a norm, as bf16.
struct RoundRowsArguments {
  Run run;
  Matrix x;
  Norm norm;
  VEERY_DEVICE uint16_t* out;
  int64_t stride;  ///< elements, of a row of `out`
};

/// activate(gate + bias[0]) (up + bias[1]) scale + residual, of products that are bf16: a row has
/// those of gate, then those of up.
struct GateRowsArguments {
  Run run;
  const VEERY_DEVICE uint16_t* products;
  const VEERY_DEVICE float* bias[2];  ///< or nullptr
  Activate gate;
  float scale;
  Matrix residual, out;
  int32_t rounded;  ///< out is bf16, whose rows are out.stride / 2 floats apart
};

/// activate(y + bias) scale + residual, in place; the outputs of weight i begin at column[i].
struct FinishRowsArguments {
  VEERY_STATIC int kWeights = 3;
  Run run;
  const VEERY_DEVICE float* bias[kWeights];  ///< or nullptr
  int32_t column[kWeights];
  int32_t weights;
  Activate gate;
  float scale;
  Matrix residual, y;
};

/// What attend_cores() has in shared memory, in bytes.
VEERY_CONSTANT int kCoreQueries = 128;  ///< of a block of threads: rows times heads
VEERY_CONSTANT int kCoreTiles = 2;      ///< of 16 queries, of a warp
VEERY_CONSTANT int kCoreThreads = kCoreQueries / (16 * kCoreTiles) * kWarp;
VEERY_CONSTANT int kCorePositions = 64;  ///< that are looked at together
VEERY_CONSTANT int kCoreStages = 2;      ///< blocks of them on their way
struct CorePlaces {
  int query, keys, value, values, stage, bytes;  ///< query, value: of one
};
VEERY_GPU_HOST constexpr CorePlaces core_places(int key_dim, int value_dim) {
  CorePlaces p{};
  // 16 bytes more than they take, for the banks.
  p.query = 2 * key_dim + 16, p.value = 2 * value_dim + 16;
  p.keys = kCoreQueries * p.query;
  p.values = 2 * key_dim * kCorePositions;
  p.stage = p.values + kCorePositions * p.value;
  p.bytes = p.keys + kCoreStages * p.stage;
  return p;
}

}  // namespace veery::gpu
