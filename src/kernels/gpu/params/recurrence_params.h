// recurrence_params.h: parameters of the kernels of recurrent layers.
#pragma once
#include "kernels/gpu/dialect/formulas.h"
#include "kernels/gpu/params/run.h"
#include "kernels/gpu/smem/scan_smem.h"

namespace veery::gpu {

VEERY_CONSTANT int64_t kSpanRows = -3;  ///< veery::kSequenceRows

/// Recurrent states of one layer (veery::Layout::kBlocks).
struct RecurrentState {
  VEERY_DEVICE uint8_t* data;
  int64_t block;  ///< bytes
  int32_t group;

  explicit VEERY_GPU_HOST operator bool() const { return data != nullptr; }
  /// Number of the last positions of a run whose states are kept.
  VEERY_GPU int kept(const VEERY_THREAD Run& run, int sequence) const {
    return run.tables[2 * (group * run.counts[3] + sequence) + 1];
  }
  /// The state after the first `position` positions.
  VEERY_GPU VEERY_DEVICE float* at(const VEERY_THREAD Run& run, int sequence,
                                   int64_t position) const {
    const VEERY_DEVICE int32_t* table = run.tables + 2 * (group * run.counts[3] + sequence);
    return reinterpret_cast<VEERY_DEVICE float*>(data +
                                                 run.pages[table[0] + position % table[1]] * block);
  }
};

struct ScanParams {
  Run run;
  Matrix q, k, v, decay, gate, a, b, bonus, rates, out;
  RecurrentState state;
  int32_t heads, key_heads, tiled;
  int32_t keys, values;            ///< dimensions of a head
  int32_t blocks, block;           ///< blocks of 16 columns per head; floats of one block
  int32_t normaliser, stabiliser;  ///< offsets in a block; 0: absent
  int32_t channel;                 ///< 1: one decay per channel
  int32_t read_before;
  float scale, eps;
  ScanSmem plan;
};

struct Conv1dParams {
  Run run;
  Matrix x, weight, bias, out;
  RecurrentState state;
  ActivationParams activation;
  VEERY_STATIC int kRows = 32;  ///< token rows per thread block
  VEERY_STATIC int kMaxWidth = 8;
};

struct SlstmParams {
  Run run;
  Matrix x, recurrent, bias, out;
  RecurrentState state;
  int32_t heads;
};

struct LinearHeadsParams {
  Run run;
  Matrix x, weight, out;
};

}  // namespace veery::gpu
