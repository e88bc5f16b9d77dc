// group_places.h: what linear_groups() has in shared memory.
#pragma once
#include "kernels/gpu/params/params.h"
#include "kernels/gpu/smem/linear_smem.h"

namespace veery::gpu {

/// Products of one group of 8 rows of x, or of some: a ring of items for each of `warps` warps, as
/// RowPlan has it, and one of chunks of x, the columns of an item, which all warps look at and one
/// more asks for.
struct GroupPlan {
  static constexpr int kSlots = RowPlan::kSlots;
  static constexpr int kWarps = 8, kMoreWarps = 12;  ///< the latter: of one group, with room for it
  static constexpr int kLeastStages = 2, kMostStages = 6;
  /// As many as warps at least: a warp may be so many chunks ahead of another, and is not to take
  /// the chunk before its own in the ring for it.
  static constexpr int kMostChunks = 16;
  /// Who asks for chunks waits for turns too, while warps go on with those that are there.
  static_assert(kMostChunks <= TurnPlaces::kOfSlot && kMoreWarps <= TurnPlaces::kOfSlot);
  static VEERY_GPU_HOST constexpr int most_threads(bool many) {
    return ((many ? kWarps : kMoreWarps) + 1) * 32;
  }
  int groups, warps;          ///< groups: at most; warps: that multiply
  int each, item_bytes;       ///< of an item: units, bytes
  int slabs, form_bytes;      ///< of a chunk: slabs; of a slab of a group: bytes
  int values;                 ///< that a lane has of a panel, whose sums lie first
  int turns, best, outliers;  ///< behind sums (Turns); outliers: a bit a block of 32
  int mbarriers, chunk_mbarriers;
  int chunks_at, chunks, chunk_bytes;  ///< chunks: that are on their way together
  int ring, stages;                    ///< stages: items that are on their way to each warp
  int bytes;
};

/// Groups that are multiplied with an item.
VEERY_GPU_HOST constexpr int most_groups(bool many) { return many ? 2 : 1; }
/// `room`: bytes of shared memory. Fewer than kLeastStages: there is too little.
VEERY_GPU_HOST constexpr GroupPlan group_plan(Format format, bool many, int cols, int room,
                                              int warps) {
  constexpr int kMostStages = GroupPlan::kMostStages, kMostChunks = GroupPlan::kMostChunks;
  constexpr int kUsualStages = 4;
  const TilePlan tile = tile_plan(format, true);
  GroupPlan p{};
  p.groups = most_groups(many), p.warps = warps;
  p.each = row_units(format);
  p.item_bytes = p.each * unit_places(format).bytes;
  p.slabs = p.each / tile.each;
  p.form_bytes = tile.form_bytes;
  p.chunk_bytes = p.slabs * p.groups * p.form_bytes;
  p.values = 4 * p.groups * (format_info(format).minima ? 2 : 1);
  int at = GroupPlan::kSlots * p.values * kWarp * 4;
  p.turns = at, at += TurnPlaces::kBytes;
  p.best = at, at += warps * 8 * p.groups * 8;
  p.outliers = at, at += format_info(format).block == 32 ? (cols / 32 + 127) / 128 * 16 : 0;
  p.mbarriers = at, at += warps * kMostStages * 8;
  p.chunk_mbarriers = at, at += kMostChunks * 8;
  p.chunks_at = at = (at + 127) / 128 * 128;
  const int item = warps * p.item_bytes, left = room - at;
  const auto least = [](int a, int b) { return a < b ? a : b; };
  p.stages = least((left - warps * p.chunk_bytes) / item, kUsualStages);
  if (p.stages < GroupPlan::kLeastStages) return p;
  p.chunks = least((left - p.stages * item) / p.chunk_bytes, kMostChunks);
  p.stages = least((left - p.chunks * p.chunk_bytes) / item, kMostStages);
  p.ring = at + p.chunks * p.chunk_bytes;
  p.bytes = p.ring + p.stages * item;
  return p;
}
VEERY_GPU_HOST constexpr GroupPlan group_plan(Format format, bool many, int cols, int room) {
  if (!many) {
    const GroupPlan more = group_plan(format, many, cols, room, GroupPlan::kMoreWarps);
    if (more.stages >= GroupPlan::kLeastStages) return more;
  }
  return group_plan(format, many, cols, room, GroupPlan::kWarps);
}

}  // namespace veery::gpu
