// plane_places.h: how products are shared out by linear_planes(), for it and for what launches it.
#pragma once
#include "kernels/gpu/dialect/arguments.h"

namespace veery::gpu {

/// What linear_planes() does: a block of threads has 64 rows of x and 12 panels of 16 outputs, of
/// which each of its warps has one. A slab is a unit of each panel and 256 columns of the rows.
struct PlanePlan {
  static constexpr int kWarps = 12, kThreads = kWarps * 32;
  static constexpr int kGroups = 8;  ///< of 8 rows
  static constexpr int kStages = 3;  ///< slabs on their way
  static constexpr int kUnit = unit_places(kK4M).bytes;
  static constexpr int kGroup = tile_places(FormKind::kPlanes, 256).slab;
  static constexpr int kForm = kGroups * kGroup;
  static constexpr int kStage = kWarps * kUnit + kForm;
  static constexpr int kBytes = kStages * (kStage + 2 * 8);
  static_assert(kGroups == tile_places(FormKind::kPlanes, 256).together);
};
/// Formats that it has.
VEERY_GPU_HOST constexpr bool has_planes(Format format) { return format == kK4M; }

}  // namespace veery::gpu
