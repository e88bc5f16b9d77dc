// warpgroup_places.h: how products by warpgroups are shared out, for linear_planes(), linear_deep()
// and linear_core_tiles() and for what launches them.
#pragma once
#include "kernels/gpu/params/params.h"

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
/// What linear_deep() does, where there are few rows and panels: a block has 32 rows and 4 panels,
/// and three sets of warps take turns with the units of these.
struct DeepPlan {
  static constexpr int kSets = 3, kPanels = 4;
  static constexpr int kThreads = kSets * kPanels * 32;
  static constexpr int kGroups = 4;  ///< of 8 rows
  static constexpr int kStages = 2;  ///< slabs of a set on their way
  static constexpr int kForm = kGroups * PlanePlan::kGroup;
  static constexpr int kStage = kPanels * PlanePlan::kUnit + kForm;
  static constexpr int kSums = kSets * kStages * kStage;     ///< where running sums lie
  static constexpr int kOwnSums = 2 * kGroups * 4 * 32 * 4;  ///< bytes of a panel
  static constexpr int kMbarriers = kSums + kPanels * kOwnSums;
  static constexpr int kTurns = kMbarriers + kSets * kStages * 2 * 8;
  static constexpr int kBytes = kTurns + kPanels * kSets * 8;
  static_assert(PlanePlan::kGroups % kGroups == 0);
};
/// Formats that both have.
VEERY_GPU_HOST constexpr bool has_planes(Format format) { return format == kK4M; }

/// What linear_core_tiles() does: a block of threads has 128 rows of x and 12 panels of 16 outputs,
/// of which each of its warps has one, whose units come by a ring of its own. Rows come in slabs of
/// 128 columns, to all blocks of a cluster at once, which have the same rows.
struct CoreTilePlan {
  static constexpr int kWarps = 12, kThreads = kWarps * 32;
  static constexpr int kGroups = kGroupsTogether;  ///< of 8 rows
  static constexpr int kBlocks = 2;                ///< of a cluster
  static constexpr int kEach = 4;                  ///< units of an item
  static constexpr int kItem = kEach * unit_places(kBF16).bytes;
  static constexpr int kItems = 5;  ///< on their way to a warp
  static constexpr int kGroup = tile_places(FormKind::kBF16, 128).slab;
  static constexpr int kSlab = kGroups * kGroup;
  static constexpr int kSlabs = 3;               ///< on their way
  static constexpr int kRings = kSlabs * kSlab;  ///< where those of weights lie
  static constexpr int kMbarriers = kRings + kWarps * kItems * kItem;
  static constexpr int kBytes = kMbarriers + (2 * kSlabs + kWarps * kItems) * 8;
};

}  // namespace veery::gpu
