// walk_places.h: what one cooperative kernel that carries out a whole step is given, and what it
// has in shared memory.
#pragma once
#include "kernels/gpu/arguments/angles_arguments.h"
#include "kernels/gpu/arguments/arguments.h"
#include "kernels/gpu/arguments/attend_places.h"

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
};

/// A product of one row. Of the panels block b has those from (b - first) mod blocks on, `blocks`
/// apart: `each_block`, and one more if that number is below `more_blocks`.
struct WalkLinear {
  LinearArguments product;  ///< room is not used
  FormPlaces places;        ///< of the form
  int32_t prepares;         ///< 0: the form is that of the row before
  int32_t late, staged;     ///< in shared memory, as RowPlan has them
  int32_t first, each_block, more_blocks;
  int32_t units, chunks;     ///< of a panel and part: units, items
  int32_t each, unit_bytes;  ///< of an item, of a unit

  VEERY_GPU_HOST int parts() const { return product.gated != 0 ? 2 : 1; }
  /// As RowPlan has them, too.
  VEERY_GPU_HOST int inverse() const {
    return late + RowPlan::late_bytes(product.form.two_terms != 0 ? 2 : 1);
  }
  VEERY_GPU_HOST int largest() const { return inverse() + 16; }
};

struct alignas(16) WalkRow {
  static constexpr int kBytes = 512;
  WalkKind kind;
  /// kQkvRope: 1: blocks of threads find what they attend to in the next row. kAttend: 0: bf16, 1:
  /// f16, 2: f32.
  int32_t type;
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
  uint32_t* barrier;  ///< arrive_at_grid()
};

/// Shared memory of the walk. Rows have the beginning as theirs, where no mbarrier may lie
/// (make_mbarrier()).
struct WalkPlaces {
  static constexpr int kWarps = 8, kThreads = kWarps * 32;
  static constexpr int kWork = 72 << 10;
  static constexpr int kSlots = 32, kSlot = 4736;  ///< items on their way
  static constexpr int kRing = kWork;
  static constexpr int kRows = kRing + kSlots * kSlot;
  static constexpr int kRowsAhead = 6;  ///< rows that are known beside the one that is carried out
  static constexpr int kMbarriers = kRows + 8 * WalkRow::kBytes;
  static constexpr int kAttendMbarrier = kMbarriers + kSlots * 8;
  static constexpr int kKnown =
      kAttendMbarrier + 16;  ///< what attention of the layers before has found
  static constexpr int kTurns = kKnown + 32;
  static constexpr int kBytes = kTurns + TurnPlaces::kBytes;
};

}  // namespace veery::gpu
