// linear_core_tiles.h: products of many rows of x with weights of bf16, by warpgroups. The bits are
// those of linear.h: a warpgroup adds 16 columns to a piece as multiply_bf16() does.
//
// Weights go by way of registers, as they lie in the order of these; rows of x are read from shared
// memory. Two sums of each output, of a piece and of all before it, leave a warp registers for
// little else, so what is multiplied next is two units ahead, not more.
#pragma once
#include "kernels/gpu/smem/gemm_wgmma_smem.h"
#include "kernels/gpu/dialect/wgmma.h"
#include "kernels/gpu/kernels/linear/x_groups.h"
#include "kernels/gpu/kernels/linear/gemm_epilogue.h"

namespace veery::gpu {

/// A warp has a panel and all rows of the block.
class CoreTileProduct : TileOutputs<CoreTilePlan::kWarps, CoreTilePlan::kGroups,
                                    CoreTilePlan::kWarps, CoreTilePlan::kThreads> {
 public:
  using Plan = CoreTilePlan;
  static constexpr int kUnit = unit_places(kBF16).bytes;
  static constexpr int kPiece = kPieceColumns / 16;                // units of a piece
  static constexpr int kSlabUnits = Plan::kGroup / 256;            // of a slab
  static constexpr int kTogether = 2, kUses = kPiece / kTogether;  // units begun together

  VEERY_GPU explicit CoreTileProduct(const LinearArguments& arguments)
      : TileOutputs(arguments),
        units_((a_.form.cols + 15) / 16),
        slabs_((units_ + kSlabUnits - 1) / kSlabUnits) {}

  VEERY_GPU void run() {
    if (first_group_ * 8 >= rows_) return;
    begin();
    int u = 0;
    VEERY_UNROLL(1)
    for (; u + kPiece <= units_; u += kPiece) add_piece();
    if (u < units_) add_last_piece(units_ - u);
    sync_block();  // nobody looks at what was brought any more
    VEERY_UNROLL(16)
    for (int n = 0; n < Plan::kGroups; ++n) tile_sums().put(n, warp(), sum_[n]);
    sync_block();
    finish();
  }

 private:
  // What comes

  VEERY_GPU Mbarrier* mbarriers() const {
    return reinterpret_cast<Mbarrier*>(shared_memory() + Plan::kMbarriers);
  }
  VEERY_GPU Mbarrier* slab_gate(int stage) const { return mbarriers() + stage; }
  VEERY_GPU Mbarrier* looked_at(int stage) const { return mbarriers() + Plan::kSlabs + stage; }
  VEERY_GPU Mbarrier* item_gate(int stage) const {
    return mbarriers() + 2 * Plan::kSlabs + warp() * Plan::kItems + stage;
  }
  VEERY_GPU uint8_t* slab(int stage) const { return shared_memory() + stage * Plan::kSlab; }
  VEERY_GPU uint8_t* item(int stage) const {
    return shared_memory() + Plan::kRings + (warp() * Plan::kItems + stage) * Plan::kItem;
  }

  VEERY_GPU void begin() {
    if (thread() < Plan::kSlabs) {
      make_mbarrier(slab_gate(thread()), 1);
      make_mbarrier(looked_at(thread()), Plan::kWarps * cluster_blocks());
    }
    if (lane() < Plan::kItems) make_mbarrier(item_gate(lane()), 1);
    sync_cluster();
    next_ = panel_data(panel_at(warp()));
    left_ = units_ * kUnit;
    if (lane() == 0) {
      for (int i = 0; i < Plan::kItems; ++i) ask_item(i);
      for (int s = 0; s < Plan::kSlabs && s < slabs_; ++s)
        if (asks_for(s)) ask_slab(s, s);
    }
    sync_warp();
  }
  /// The next item of the warp's panel, by one lane.
  VEERY_GPU void ask_item(int stage) {
    const int bytes = left_ < Plan::kItem ? left_ : Plan::kItem;
    if (bytes <= 0) return;
    ask_piece(item_gate(stage), item(stage), next_, bytes);
    next_ += bytes, left_ -= bytes;
  }
  /// A warp for each stage.
  static VEERY_GPU bool asks_for(int stage) { return warp() == 2 * stage; }
  VEERY_GPU void ask_slab(int s, int stage) const {
    const int each = Plan::kSlab / cluster_blocks(), first = cluster_rank() * each;
    const uint8_t* from = a_.form.data + first_group_ * a_.form.stride + int64_t{s} * Plan::kSlab;
    expect_pieces(slab_gate(stage), Plan::kSlab);
    copy_to_cluster(slab_gate(stage), slab(stage) + first, from + first, each);
  }

  VEERY_GPU void wait_for_slab() { wait_for_pieces(slab_gate(slab_stage_), slab_turn_); }
  VEERY_GPU void wait_for_item() { wait_for_pieces(item_gate(item_stage_), item_turn_); }
  /// All lanes have what they want of the item.
  VEERY_GPU void next_item() {
    sync_warp();
    if (lane() == 0) ask_item(item_stage_);
    if (++item_stage_ == Plan::kItems) item_stage_ = 0, ++item_turn_;
  }
  VEERY_GPU void next_slab() {
    if (++slab_stage_ == Plan::kSlabs) slab_stage_ = 0, ++slab_turn_;
    ++slab_;
  }
  VEERY_GPU int stage_before() const {
    return slab_stage_ == 0 ? Plan::kSlabs - 1 : slab_stage_ - 1;
  }
  /// The warp has looked at the slab in front of this one.
  VEERY_GPU void leave_slab_before() const {
    if (slab_ == 0 || slab_ - 1 + Plan::kSlabs >= slabs_) return;
    if (lane() < cluster_blocks()) arrive_at_block(looked_at(stage_before()), lane());
  }
  /// Most likely all others have, too.
  VEERY_GPU void ask_next_slab() const {
    if (slab_ == 0 || slab_ - 1 + Plan::kSlabs >= slabs_) return;
    const int stage = stage_before();
    if (lane() != 0 || !asks_for(stage)) return;
    wait_for_pieces(looked_at(stage), slab_stage_ == 0 ? slab_turn_ - 1 : slab_turn_);
    ask_slab(slab_ - 1 + Plan::kSlabs, stage);
  }

  // Products

  VEERY_GPU void load_units(const uint8_t* units, uint32_t (&to)[kTogether][4]) const {
    VEERY_UNROLL(2)
    for (int j = 0; j < kTogether; ++j) load_tile<kBF16>(units + j * kUnit, to[j]);
  }
  VEERY_GPU void add_piece() {
    uint32_t tiles[2][kTogether][4];
    VEERY_UNROLL(8)
    for (int h = 0; h < kUses; ++h) {
      const int u = h * kTogether;
      auto& own = tiles[h % 2];
      if (u % Plan::kEach == 0) wait_for_item();
      load_units(item(item_stage_) + u % Plan::kEach * kUnit, own);
      if (u % kSlabUnits == 0) wait_for_slab();
      const uint8_t* x = slab(slab_stage_) + u % kSlabUnits * 256;
      give_to_products();
      VEERY_UNROLL(2)
      for (int j = 0; j < kTogether; ++j)
        begin_sums(part_, own[j], x + j * 256, Plan::kGroup, u + j > 0);
      end_products();
      wait_for_sums<1>(part_);
      VEERY_UNROLL(2)
      for (int j = 0; j < kTogether; ++j) end_use(tiles[(h + 1) % 2][j]);
      if ((u + kTogether) % Plan::kEach == 0) next_item();
      if (u % kSlabUnits == 0) leave_slab_before();
      if (u % kSlabUnits == kTogether) ask_next_slab();
      if ((u + kTogether) % kSlabUnits == 0) next_slab();
    }
    wait_for_sums<0>(part_);
    add_part();
  }
  /// One that is shorter: `units` of it.
  VEERY_GPU void add_last_piece(int units) {
    VEERY_UNROLL(1)
    for (int u = 0; u < units; ++u) {
      uint32_t tile[4];
      if (u % Plan::kEach == 0) wait_for_item();
      load_tile<kBF16>(item(item_stage_) + u % Plan::kEach * kUnit, tile);
      if (u % kSlabUnits == 0) wait_for_slab();
      give_to_products();
      begin_sums(part_, tile, slab(slab_stage_) + u % kSlabUnits * 256, Plan::kGroup, u > 0);
      end_products();
      wait_for_sums<0>(part_);
      end_use(tile);
      if ((u + 1) % Plan::kEach == 0) next_item();
      if ((u + 1) % kSlabUnits == 0) next_slab();
    }
    add_part();
  }
  VEERY_GPU void add_part() {
    VEERY_UNROLL(16)
    for (int n = 0; n < Plan::kGroups; ++n) VEERY_UNROLL(4)
    for (int i = 0; i < 4; ++i) sum_[n][i] = sum_[n][i] + part_[n][i];
  }
  static_assert(kSumBytes <= Plan::kMbarriers);

  int units_, slabs_;
  const uint8_t* next_;  ///< of the warp's panel, of which left_ bytes are left
  int left_;
  int item_stage_ = 0, item_turn_ = 0;
  int slab_ = 0, slab_stage_ = 0, slab_turn_ = 0;
  /// [8 rows of x][outputs g, g of the panel, g + 8, g + 8 of rows 2 t, 2 t + 1, ..]
  float sum_[Plan::kGroups][4] = {}, part_[Plan::kGroups][4];
};

VEERY_GPU void linear_core_tiles(const LinearArguments& a) {
  wait_for_inputs();
  CoreTileProduct(a).run();
}

}  // namespace veery::gpu
