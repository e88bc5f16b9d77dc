// recurrence_params.h: the states of recurrent layers, in parameters of several kernels.
#pragma once
#include "kernels/gpu/params/run.h"

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

}  // namespace veery::gpu
