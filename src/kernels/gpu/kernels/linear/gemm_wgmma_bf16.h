// gemm_wgmma_bf16.h: GEMM of bf16 weights by wgmma. The bits are those of gemm_direct.h: wgmma adds
// 16 columns to a piece as mma_m16n8k16_bf16() does.
//
// Weights are the A operand in registers, as they are stored in fragment order; the rows are read
// from shared memory. Each output has two sums, of the current piece and of all pieces before it,
// which leaves few registers: weights are loaded only two units ahead.
#pragma once
#include "kernels/gpu/dialect/kernel_key.h"
#include "kernels/gpu/params/linear_params.h"

namespace veery::gpu {

namespace key {

constexpr KernelKey gemm_wgmma_bf16() {
  return of(Family::kGemmWgmmaBf16, kBF16, RowClass::kMany, 0);
}

}  // namespace key
}  // namespace veery::gpu

#if defined(VEERY_CUDA_CODE)
#include "kernels/gpu/dialect/wgmma.h"
#include "kernels/gpu/kernels/linear/gemm_epilogue-inl.h"
#include "kernels/gpu/kernels/linear/x_groups-inl.h"
#include "kernels/gpu/smem/gemm_wgmma_smem.h"

namespace veery::gpu {

/// A warp has one panel and all rows of the block.
class GemmWgmmaBf16 : GemmEpilogue<GemmWgmmaBf16Smem::kWarps, GemmWgmmaBf16Smem::kGroups,
                                   GemmWgmmaBf16Smem::kWarps, GemmWgmmaBf16Smem::kThreads> {
 public:
  using Plan = GemmWgmmaBf16Smem;
  static constexpr int kUnit = unit_layout(kBF16).bytes;
  static constexpr int kPiece = kBf16PieceColumns / 16;             // units of a piece
  static constexpr int kKTileUnits = Plan::kGroup / 256;            // units of a K tile
  static constexpr int kTogether = 2, kSteps = kPiece / kTogether;  // units issued together

  VEERY_GPU explicit GemmWgmmaBf16(const GemmParams& params)
      : GemmEpilogue(params),
        units_((a_.act.cols + 15) / 16),
        k_tiles_((units_ + kKTileUnits - 1) / kKTileUnits) {}

  VEERY_GPU void run() {
    if (first_group_ * 8 >= rows_) return;
    begin();
    int u = 0;
    VEERY_UNROLL(1)
    for (; u + kPiece <= units_; u += kPiece) add_piece();
    if (u < units_) add_last_piece(units_ - u);
    sync_block();  // the stages are free
    VEERY_UNROLL(16)
    for (int n = 0; n < Plan::kGroups; ++n) shared_sums().store(n, warp(), sum_[n]);
    sync_block();
    finish();
  }

 private:
  // Copies

  VEERY_GPU Mbarrier* mbarriers() const {
    return reinterpret_cast<Mbarrier*>(shared_memory() + Plan::kMbarriers);
  }
  VEERY_GPU Mbarrier* k_tile_barrier(int stage) const { return mbarriers() + stage; }
  VEERY_GPU Mbarrier* empty_barrier(int stage) const {
    return mbarriers() + Plan::kKTileStages + stage;
  }
  VEERY_GPU Mbarrier* tile_barrier(int stage) const {
    return mbarriers() + 2 * Plan::kKTileStages + warp() * Plan::kTileStages + stage;
  }
  VEERY_GPU uint8_t* k_tile(int stage) const { return shared_memory() + stage * Plan::kKTile; }
  VEERY_GPU uint8_t* tile(int stage) const {
    return shared_memory() + Plan::kRings + (warp() * Plan::kTileStages + stage) * Plan::kTileBytes;
  }

  VEERY_GPU void begin() {
    if (thread() < Plan::kKTileStages) {
      init_mbarrier(k_tile_barrier(thread()), 1);
      init_mbarrier(empty_barrier(thread()), Plan::kWarps * cluster_blocks());
    }
    if (lane() < Plan::kTileStages) init_mbarrier(tile_barrier(lane()), 1);
    sync_cluster();
    next_ = panel_data(panel_at(warp()));
    left_ = units_ * kUnit;
    if (lane() == 0) {
      for (int i = 0; i < Plan::kTileStages; ++i) copy_tile(i);
      for (int s = 0; s < Plan::kKTileStages && s < k_tiles_; ++s)
        if (is_producer(s)) copy_k_tile(s, s);
    }
    sync_warp();
  }
  /// Issues the copy of the next weight tile of the warp's panel; by one lane.
  VEERY_GPU void copy_tile(int stage) {
    const int bytes = left_ < Plan::kTileBytes ? left_ : Plan::kTileBytes;
    if (bytes <= 0) return;
    copy_bulk(tile_barrier(stage), tile(stage), next_, bytes);
    next_ += bytes, left_ -= bytes;
  }
  /// Each stage of x has its own producer warp.
  static VEERY_GPU bool is_producer(int stage) { return warp() == 2 * stage; }
  VEERY_GPU void copy_k_tile(int s, int stage) const {
    const int each = Plan::kKTile / cluster_blocks(), first = cluster_rank() * each;
    const uint8_t* from = a_.act.data + first_group_ * a_.act.stride + int64_t{s} * Plan::kKTile;
    expect_bytes(k_tile_barrier(stage), Plan::kKTile);
    copy_bulk_multicast(k_tile_barrier(stage), k_tile(stage) + first, from + first, each);
  }

  VEERY_GPU void wait_for_k_tile() { wait_for_phase(k_tile_barrier(k_tile_stage_), k_tile_phase_); }
  VEERY_GPU void wait_for_tile() { wait_for_phase(tile_barrier(tile_stage_), tile_phase_); }
  /// Refills the stage of the current weight tile, after all lanes have loaded it.
  VEERY_GPU void next_tile() {
    sync_warp();
    if (lane() == 0) copy_tile(tile_stage_);
    if (++tile_stage_ == Plan::kTileStages) tile_stage_ = 0, ++tile_phase_;
  }
  VEERY_GPU void next_k_tile() {
    if (++k_tile_stage_ == Plan::kKTileStages) k_tile_stage_ = 0, ++k_tile_phase_;
    ++k_tile_;
  }
  VEERY_GPU int previous_stage() const {
    return k_tile_stage_ == 0 ? Plan::kKTileStages - 1 : k_tile_stage_ - 1;
  }
  /// Releases the stage of the previous K tile, which this warp no longer needs.
  VEERY_GPU void release_previous_k_tile() const {
    if (k_tile_ == 0 || k_tile_ - 1 + Plan::kKTileStages >= k_tiles_) return;
    if (lane() < cluster_blocks()) arrive_remote(empty_barrier(previous_stage()), lane());
  }
  /// Refills that stage, if this warp is its producer. It is called later than the release, when
  /// the other warps have probably released the stage too.
  VEERY_GPU void refill_k_tile() const {
    if (k_tile_ == 0 || k_tile_ - 1 + Plan::kKTileStages >= k_tiles_) return;
    const int stage = previous_stage();
    if (lane() != 0 || !is_producer(stage)) return;
    wait_for_phase(empty_barrier(stage), k_tile_stage_ == 0 ? k_tile_phase_ - 1 : k_tile_phase_);
    copy_k_tile(k_tile_ - 1 + Plan::kKTileStages, stage);
  }

  // Products

  VEERY_GPU void load_units(const uint8_t* units, uint32_t (&to)[kTogether][4]) const {
    VEERY_UNROLL(2)
    for (int j = 0; j < kTogether; ++j) load_fragment<kBF16>(units + j * kUnit, to[j]);
  }
  VEERY_GPU void add_piece() {
    uint32_t fragments[2][kTogether][4];
    VEERY_UNROLL(8)
    for (int h = 0; h < kSteps; ++h) {
      const int u = h * kTogether;
      auto& own = fragments[h % 2];
      if (u % Plan::kTileUnits == 0) wait_for_tile();
      load_units(tile(tile_stage_) + u % Plan::kTileUnits * kUnit, own);
      if (u % kKTileUnits == 0) wait_for_k_tile();
      const uint8_t* x = k_tile(k_tile_stage_) + u % kKTileUnits * 256;
      wgmma_fence();
      VEERY_UNROLL(2)
      for (int j = 0; j < kTogether; ++j)
        wgmma_bf16(part_, own[j], x + j * 256, Plan::kGroup, u + j > 0);
      wgmma_commit();
      wgmma_wait<1>(part_);
      VEERY_UNROLL(2)
      for (int j = 0; j < kTogether; ++j) keep_alive(fragments[(h + 1) % 2][j]);
      if ((u + kTogether) % Plan::kTileUnits == 0) next_tile();
      if (u % kKTileUnits == 0) release_previous_k_tile();
      if (u % kKTileUnits == kTogether) refill_k_tile();
      if ((u + kTogether) % kKTileUnits == 0) next_k_tile();
    }
    wgmma_wait<0>(part_);
    add_piece_sum();
  }
  /// The last piece, of `units` units.
  VEERY_GPU void add_last_piece(int units) {
    VEERY_UNROLL(1)
    for (int u = 0; u < units; ++u) {
      uint32_t fragment[4];
      if (u % Plan::kTileUnits == 0) wait_for_tile();
      load_fragment<kBF16>(tile(tile_stage_) + u % Plan::kTileUnits * kUnit, fragment);
      if (u % kKTileUnits == 0) wait_for_k_tile();
      wgmma_fence();
      wgmma_bf16(part_, fragment, k_tile(k_tile_stage_) + u % kKTileUnits * 256, Plan::kGroup,
                 u > 0);
      wgmma_commit();
      wgmma_wait<0>(part_);
      keep_alive(fragment);
      if ((u + 1) % Plan::kTileUnits == 0) next_tile();
      if ((u + 1) % kKTileUnits == 0) next_k_tile();
    }
    add_piece_sum();
  }
  VEERY_GPU void add_piece_sum() {
    VEERY_UNROLL(16)
    for (int n = 0; n < Plan::kGroups; ++n) VEERY_UNROLL(4)
    for (int i = 0; i < 4; ++i) sum_[n][i] = sum_[n][i] + part_[n][i];
  }
  static_assert(kSumBytes <= Plan::kMbarriers);

  int units_, k_tiles_;
  const uint8_t* next_;  ///< next weight tile of the panel; left_ bytes remain
  int left_;
  int tile_stage_ = 0, tile_phase_ = 0;
  int k_tile_ = 0, k_tile_stage_ = 0, k_tile_phase_ = 0;
  /// [group][outputs g, g, g + 8, g + 8 of rows 2 t, 2 t + 1, ..]
  float sum_[Plan::kGroups][4] = {}, part_[Plan::kGroups][4];
};

VEERY_GPU void gemm_wgmma_bf16(const GemmParams& a) {
  wait_for_dependencies();
  GemmWgmmaBf16(a).run();
}

}  // namespace veery::gpu
#endif  // VEERY_CUDA_CODE

#define VEERY_GPU_GEMM_WGMMA_BF16_KERNELS(X)                                           \
  X(kWgmma, gemm_wgmma_bf16, GemmParams, (veery::gpu::GemmWgmmaBf16Smem::kThreads), 0, \
    key::gemm_wgmma_bf16(), (gemm_wgmma_bf16))
