// linear_planes.h: products of many rows of x whose codes, times their shifts, are two digits
// (FormKind::kPlanes), by warpgroups. The bits are those of linear.h.
//
// A code times 2^shift is 16 high + low, so sums of 32 columns are those of 16 w high + w low: the
// shifts of parts of x cost nothing where the sums are multiplied by scales.
#pragma once
#include "kernels/gpu/smem/gemm_wgmma_smem.h"
#include "kernels/gpu/dialect/wgmma.h"
#include "kernels/gpu/kernels/linear/x_groups.h"
#include "kernels/gpu/kernels/linear/mma_blocks.h"
#include "kernels/gpu/kernels/linear/gemm_epilogue.h"

namespace veery::gpu {

/// The unit of a warp's panel times 256 columns of kGroups groups of 8 rows.
template <int kGroups>
class PlaneUnit {
 public:
  static constexpr Format kFormat = kK4M;
  static constexpr UnitPlaces kPlaces = unit_places(kFormat);
  static constexpr TilePlaces kSlab = tile_places(FormKind::kPlanes, 256);

  /// Whole numbers: products of codes, times scales. By all warps of a warpgroup.
  VEERY_GPU PlaneUnit(const uint8_t* unit, const uint8_t* form) : unit_(unit), form_(form) {
    const auto scales = load<Four<uint32_t>>(unit + kPlaces.scales + lane() / 4 * 16);
    int32_t c[kGroups][4];
    Digits digits;
    unpack(unit, digits);
    VEERY_UNROLL(8)
    for (int s = 0; s < 8; ++s) {
      begin_products(c, digits.high, digits.low, form + s * 512, PlanePlan::kGroup);
      Digits next = {};
      if (s < 7) unpack(unit + (s + 1) * kPlaces.tile, next);
      const int low = signed_byte_of(s < 4 ? scales.x : scales.y, s % 4);
      const int high = signed_byte_of(s < 4 ? scales.z : scales.w, s % 4);
      wait_for_products(c);
      VEERY_UNROLL(8)
      for (int n = 0; n < kGroups; ++n) VEERY_UNROLL(4)
      for (int i = 0; i < 4; ++i) {
        const int32_t own = c[n][i] * (i < 2 ? low : high);
        all_[n][i] = s == 0 ? own : all_[n][i] + own;
      }
      digits = next;
    }
  }
  /// The step of the chains: of products, and of minima.
  VEERY_GPU void add_to(float (&sum)[kGroups][4], float (&low)[kGroups][4]) const {
    const Two<float> d = load_scales<kFormat>(unit_), least = load_halves(unit_ + kPlaces.m);
    typename SuperBlock<kFormat, 1, kGroups, PlanePlan::kUnit, PlanePlan::kGroup>::Minima minima;
    minima.load(unit_);
    VEERY_UNROLL(8)
    for (int n = 0; n < kGroups; ++n) {
      const uint8_t* at = form_ + n * PlanePlan::kGroup;
      const auto scale = load<Two<float>>(at + kSlab.scale + lane() % 4 * 8);
      float lows[4];
      minima.add_up(load<Two<uint32_t>>(at + kSlab.sums + lane() * 8), lows);
      VEERY_UNROLL(4)
      for (int i = 0; i < 4; ++i) {
        const float own = i % 2 == 0 ? scale.x : scale.y;
        sum[n][i] = fma((i < 2 ? d.x : d.y) * own, static_cast<float>(all_[n][i]), sum[n][i]);
        low[n][i] = fma((i < 2 ? least.x : least.y) * own, lows[i], low[n][i]);
      }
    }
  }

 private:
  /// Weights of 32 columns times 16, and as they are.
  struct Digits {
    uint32_t high[4], low[4];
  };
  static VEERY_GPU void unpack(const uint8_t* tile, Digits& to) {
    const auto v = load<Two<uint32_t>>(tile + lane() * 8);
    to.low[0] = v.x & 0x0f0f0f0fU, to.low[1] = v.y & 0x0f0f0f0fU;
    to.low[2] = v.x >> 4 & 0x0f0f0f0fU, to.low[3] = v.y >> 4 & 0x0f0f0f0fU;
    to.high[0] = v.x << 4 & 0xf0f0f0f0U, to.high[1] = v.y << 4 & 0xf0f0f0f0U;
    to.high[2] = v.x & 0xf0f0f0f0U, to.high[3] = v.y & 0xf0f0f0f0U;
  }

  const uint8_t *unit_, *form_;
  int32_t all_[kGroups][4];
};
/// What is added of the chains, `panel` being one of those of a block.
template <int kGroups, typename Sums>
VEERY_GPU void put_sums(const float (&sum)[kGroups][4], const float (&low)[kGroups][4], int panel,
                        const Sums& to) {
  VEERY_UNROLL(8)
  for (int n = 0; n < kGroups; ++n)
    to.put(n, panel,
           {sum[n][0] - low[n][0], sum[n][1] - low[n][1], sum[n][2] - low[n][2],
            sum[n][3] - low[n][3]});
}

/// A warp has a panel and all rows of the block.
class PlaneProduct
    : TileOutputs<PlanePlan::kWarps, PlanePlan::kGroups, PlanePlan::kWarps, PlanePlan::kThreads> {
 public:
  static constexpr int kGroups = PlanePlan::kGroups, kStages = PlanePlan::kStages;

  VEERY_GPU explicit PlaneProduct(const LinearArguments& arguments)
      : TileOutputs(arguments), units_(a_.form.cols / 256) {}

  VEERY_GPU void run() {
    if (first_group_ * 8 >= rows_) return;
    begin();
    int used = 0, turn = 0, before = 0, turn_before = 0;
    for (int u = 0; u < units_; ++u) {
      wait_for_pieces(gate(used), turn);
      const uint8_t* stage = shared_memory() + used * PlanePlan::kStage;
      const PlaneUnit<kGroups> unit(stage + warp() * PlanePlan::kUnit,
                                    stage + PlanePlan::kWarps * PlanePlan::kUnit);
      unit.add_to(sum_, low_);
      ask_next(u, used, before, turn_before);
      sync_warp();
      before = used, turn_before = turn;
      if (++used == kStages) used = 0, ++turn;
    }
    sync_block();  // nobody looks at the stages any more
    put_sums(sum_, low_, warp(), tile_sums());
    sync_block();
    finish();
  }

 private:
  // Copies: a warp asks for its panel, and when all have looked at a stage, one for the rows.

  VEERY_GPU Mbarrier* gate(int stage) const {
    return reinterpret_cast<Mbarrier*>(shared_memory() + kStages * PlanePlan::kStage) + stage;
  }
  VEERY_GPU Mbarrier* looked_at(int stage) const { return gate(kStages + stage); }
  VEERY_GPU void begin() {
    if (thread() < kStages) {
      make_mbarrier(gate(thread()), PlanePlan::kWarps + 1);
      make_mbarrier(looked_at(thread()), PlanePlan::kThreads);
    }
    sync_block();
    panel_ = panel_data(panel_at(warp()));
    if (lane() == 0)
      for (int s = 0; s < kStages && s < units_; ++s) {
        ask_panel(s, s);
        if (asks_for(s)) ask_rows(s, s);
      }
    sync_warp();
  }
  static VEERY_GPU bool asks_for(int stage) { return warp() == 4 * stage; }
  VEERY_GPU void ask_panel(int u, int stage) const {
    uint8_t* to = shared_memory() + stage * PlanePlan::kStage + warp() * PlanePlan::kUnit;
    ask_piece(gate(stage), to, panel_ + u * PlanePlan::kUnit, PlanePlan::kUnit);
  }
  VEERY_GPU void ask_rows(int u, int stage) const {
    uint8_t* to =
        shared_memory() + stage * PlanePlan::kStage + PlanePlan::kWarps * PlanePlan::kUnit;
    ask_piece(gate(stage), to, form_group(a_.form, first_group_).slab(8 * u), PlanePlan::kForm);
  }
  /// The warp has looked at unit u; others most likely at the one before.
  VEERY_GPU void ask_next(int u, int stage, int before, int turn_before) const {
    if (u + kStages < units_) arrive(looked_at(stage));
    sync_warp();
    if (lane() != 0) return;
    if (u + kStages < units_) ask_panel(u + kStages, stage);
    if (u > 0 && u - 1 + kStages < units_ && asks_for(before)) {
      wait_for_arrivals(looked_at(before), turn_before);
      ask_rows(u - 1 + kStages, before);
    }
  }

  static_assert(kSumBytes <= PlanePlan::kStage);

  int units_;
  const uint8_t* panel_;
  /// As ManyProduct has them.
  float sum_[kGroups][4] = {}, low_[kGroups][4] = {};
};

VEERY_GPU void linear_planes(const LinearArguments& a) {
  wait_for_inputs();
  PlaneProduct(a).run();
}

}  // namespace veery::gpu
