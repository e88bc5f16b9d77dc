// core_tile_places.h: how products are shared out by linear_core_tiles(), for it and for what
// launches it.
#pragma once
#include "kernels/gpu/dialect/arguments.h"

namespace veery::gpu {

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
