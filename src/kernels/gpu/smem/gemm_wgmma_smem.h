// gemm_wgmma_smem.h: tile shapes and shared memory of the products by wgmma (compute capability
// 9.0).
#pragma once
#include "kernels/gpu/packing/activations.h"

namespace veery::gpu {

/// gemm_wgmma_int8(): a thread block has 64 token rows and 12 panels of 16 outputs, one per warp. A
/// stage is a unit of each panel and 256 columns of the rows.
struct GemmWgmmaInt8Smem {
  static constexpr int kWarps = 12, kThreads = kWarps * 32;
  static constexpr int kGroups = 8;  ///< of 8 rows
  static constexpr int kStages = 3;
  static constexpr int kUnit = unit_layout(kK4M).bytes;
  static constexpr int kGroup = activation_group_layout(ActivationKind::kInt4Digits, 256).k_tile;
  static constexpr int kActBytes = kGroups * kGroup;
  static constexpr int kStage = kWarps * kUnit + kActBytes;
  static constexpr int kBytes = kStages * (kStage + 2 * 8);
  static_assert(kGroups ==
                activation_group_layout(ActivationKind::kInt4Digits, 256).groups_together);
};
/// gemm_wgmma_splitk(), for few rows and panels: a thread block has 32 rows and 4 panels. Three
/// sets of warps split K and take turns with the units of the panels.
struct GemmWgmmaSplitkSmem {
  static constexpr int kSets = 3, kPanels = 4;
  static constexpr int kThreads = kSets * kPanels * 32;
  static constexpr int kGroups = 4;  ///< of 8 rows
  static constexpr int kStages = 2;  ///< per set
  static constexpr int kActBytes = kGroups * GemmWgmmaInt8Smem::kGroup;
  static constexpr int kStage = kPanels * GemmWgmmaInt8Smem::kUnit + kActBytes;
  static constexpr int kSums = kSets * kStages * kStage;       ///< offset of the running sums
  static constexpr int kPanelSums = 2 * kGroups * 4 * 32 * 4;  ///< bytes per panel
  static constexpr int kMbarriers = kSums + kPanels * kPanelSums;
  static constexpr int kTickets = kMbarriers + kSets * kStages * 2 * 8;
  static constexpr int kBytes = kTickets + kPanels * kSets * 8;
  static_assert(GemmWgmmaInt8Smem::kGroups % kGroups == 0);
};
/// Formats that both have.
VEERY_GPU_HOST constexpr bool has_wgmma_int8(WeightFormat format) { return format == kK4M; }

/// gemm_wgmma_bf16(): a thread block has 128 token rows and 12 panels of 16 outputs, one per warp
/// with a ring of its own for the units. Rows come in K tiles of 128 columns, multicast to all
/// blocks of a cluster, which have the same rows.
struct GemmWgmmaBf16Smem {
  static constexpr int kWarps = 12, kThreads = kWarps * 32;
  static constexpr int kGroups = kBf16GroupsTogether;  ///< of 8 rows
  static constexpr int kBlocks = 2;                    ///< thread blocks of a cluster
  static constexpr int kTileUnits = 4;                 ///< units of a weight tile
  static constexpr int kTileBytes = kTileUnits * unit_layout(kBF16).bytes;
  static constexpr int kTileStages = 5;  ///< weight tiles in flight per warp
  static constexpr int kGroup = activation_group_layout(ActivationKind::kBF16, 128).k_tile;
  static constexpr int kKTile = kGroups * kGroup;
  static constexpr int kKTileStages = 3;                ///< K tiles of x in flight
  static constexpr int kRings = kKTileStages * kKTile;  ///< offset of the weight rings
  static constexpr int kMbarriers = kRings + kWarps * kTileStages * kTileBytes;
  static constexpr int kBytes = kMbarriers + (2 * kKTileStages + kWarps * kTileStages) * 8;
};

}  // namespace veery::gpu
