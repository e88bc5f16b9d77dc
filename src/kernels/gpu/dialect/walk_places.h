// walk_places.h: what one cooperative kernel that carries out a whole step is given, and what it
// has in shared memory.
#pragma once
#include "kernels/gpu/dialect/angles_arguments.h"
#include "kernels/gpu/dialect/arguments.h"
#include "kernels/gpu/dialect/attend_places.h"

namespace veery::gpu {

/// What a row of a walk does: the kernel of the same name, or one of linear_row.
enum class WalkKind : int32_t {
  kLinear,
  kEmbed,
  kRmsNorm,
  kLayerNorm,
  kElementwise,
  kSelectRows,
  kArgmax,
  kBest,
  kAngles,
  kRope,
  kCacheWrite,
  kQkvRope,
  kAttend,
  kMerge,
};

/// A product of one row, which each block of threads brings to its form by itself. Of the panels
/// block b has those from (b - first) mod blocks on, `blocks` apart. An item is `each` units of a
/// panel of one part, what a warp takes at a time; a segment is the items of a panel whose steps
/// are added up together.
struct WalkLinear {
  LinearArguments product;  ///< form.data is not used
  FormPlaces places;        ///< of the form
  const float* x;
  Norm norm;
  int32_t prepares;  ///< 0: the form is that of the row before
  int32_t staged;    ///< x has room in shared memory while it is normalised
  int32_t panels, first, units;
  int32_t chunks;  ///< items of a panel and part
  int32_t parts;
  int32_t segments;  ///< of a panel
  int32_t each, unit_bytes;
};

struct alignas(16) WalkRow {
  static constexpr int kBytes = 512;
  WalkKind kind;
  int32_t type;   ///< kAttend and kMerge: 0: bf16, 1: f16, 2: f32; 3 more with more than 128 values
  int32_t x, y;   ///< blocks of the kernel of that name
  int32_t waits;  ///< 0: the next row does not depend on it
  int32_t unused[3];
  union {
    WalkLinear linear;
    EmbedArguments embed;
    RmsNormArguments rms_norm;
    LayerNormArguments layer_norm;
    ElementwiseArguments elementwise;
    SelectRowsArguments select_rows;
    ArgmaxArguments argmax;
    BestArguments best;
    AnglesArguments angles;
    RopeArguments rope;
    CacheWriteArguments cache_write;
    QkvRopeArguments qkv_rope;
    AttendArguments attend;
    uint8_t bytes[kBytes - 32];
  };
};
static_assert(sizeof(WalkRow) == WalkRow::kBytes);

struct WalkArguments {
  const WalkRow* rows;
  int32_t count;
  uint32_t* barrier;  ///< sync_grid()
};

/// Shared memory of the walk. Rows other than products have the beginning as their shared memory.
struct WalkPlaces {
  static constexpr int kWarps = 8, kThreads = kWarps * 32;
  static constexpr int kForm = 40 << 10;    ///< x in its form
  static constexpr int kSegments = 4;       ///< that are under way
  static constexpr int kSegment = 8 << 10;  ///< bytes of its steps
  static constexpr int kSteps = kForm;
  static constexpr int kWork = kSteps + kSegments * kSegment;
  static constexpr int kSlots = 4, kSlot = 4736;  ///< items on their way to each warp
  static constexpr int kRing = kWork;
  static constexpr int kRows = kRing + kWarps * kSlots * kSlot;
  static constexpr int kRowsAhead = 6;  ///< rows that are known beside the one that is carried out
  static constexpr int kGates = kRows + 8 * WalkRow::kBytes;
  static constexpr int kAttendGate = kGates + kWarps * kSlots * 8;
  static constexpr int kCarried = kAttendGate + 16;  ///< [segment][chains x 16] f32
  static constexpr int kCounters = kCarried + kSegments * 256;
  static constexpr int kBytes = kCounters + 2 * kSegments * 4;
};

/// Units of an item.
VEERY_GPU_HOST constexpr int walk_each(Format format) {
  const int units = WalkPlaces::kSlot / unit_places(format).bytes;
  return format_info(format).block == 32 ? units / 4 * 4 : units;
}
/// Items of a segment, of each part.
VEERY_GPU_HOST constexpr int walk_chunks(Format format, int terms, int parts) {
  const int sets = parts * (format_info(format).minima ? 2 : 1);
  return WalkPlaces::kSegment / (128 * sets * terms) / walk_each(format);
}

}  // namespace veery::gpu
