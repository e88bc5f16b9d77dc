// prepare_tiles_arguments.h: how the making of the forms of many rows is shared out, for
// prepare_tiles() and for what launches it.
#pragma once
#include "kernels/gpu/params/params.h"

namespace veery::gpu {

struct PrepareTilesArguments {
  Run run;
  Matrix x;
  Norm norm;
  Form form;
  VEERY_DEVICE uint64_t* best;  ///< LinearArguments::best, to be cleared; or nullptr
  int32_t bits;    ///< 2 to their power: of the 8 places of a group those of a block of threads
  int32_t parts;   ///< blocks of threads that share those; 1 where they have to come to whole rows
  int32_t staged;  ///< rows that are normalised, and the norm's weights, have room in shared memory
  int32_t alone;   ///< what is launched next waits until this has ended
};

/// Where things lie in the shared memory of a block of threads, in floats.
struct TilesMakerPlaces {
  int inverse;  ///< what the norm finds of each row; before it, kPer32: [places][cols / 32]
  int weights, rows, pitch;
  int64_t floats;
  /// Whole rows are wanted: of their blocks of 32 the mean, or their norm.
  static VEERY_GPU_HOST constexpr bool wants_rows(FormKind kind, bool normed) {
    return normed || kind == FormKind::kPer32;
  }
  /// Columns that a lane has four in 16 of at a time.
  static VEERY_GPU_HOST constexpr int columns(FormKind kind) {
    return kind == FormKind::kPer256 || kind == FormKind::kPlanes ? 256 : 128;
  }
  /// Those of 256 columns want more registers.
  static VEERY_GPU_HOST constexpr int most_warps(FormKind kind) {
    return columns(kind) == 256 ? 4 : 8;
  }
};
/// `rows`: of x, of a block of threads.
VEERY_GPU_HOST constexpr TilesMakerPlaces tiles_maker_places(FormKind kind, int32_t cols,
                                                             int places, int rows, bool staged) {
  TilesMakerPlaces p{};
  p.inverse = kind == FormKind::kPer32 ? (places * (cols / 32) + 3) / 4 * 4 : 0;
  p.weights = p.inverse + 8;
  p.rows = p.weights + cols;
  p.pitch = cols + 16;  // so that neighbours are in other banks
  p.floats = staged ? p.rows + int64_t{rows} * p.pitch : p.weights;
  return p;
}

}  // namespace veery::gpu
