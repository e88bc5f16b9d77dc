// linear_deep.h: products of rows and panels too few to give processors blocks of threads with all
// columns (linear_planes.h): sets of warps of a block take turns with the columns.
//
// What is whole numbers is found by a set for itself. Chains go on in shared memory, in the order
// of the units: a warp waits until the one that has the unit before it has passed them on.
#pragma once
#include "kernels/gpu/kernels/linear/gemm_wgmma_int8.h"

namespace veery::gpu {

class DeepProduct : TileOutputs<DeepPlan::kPanels, DeepPlan::kGroups, DeepPlan::kPanels,
                                DeepPlan::kPanels * kWarp> {
 public:
  static constexpr int kGroups = DeepPlan::kGroups, kSets = DeepPlan::kSets,
                       kStages = DeepPlan::kStages, kPanels = DeepPlan::kPanels;

  VEERY_GPU explicit DeepProduct(const LinearArguments& arguments)
      : TileOutputs(arguments), units_(a_.form.cols / 256) {}

  VEERY_GPU void run() {
    if (first_group_ * 8 >= rows_) return;
    begin();
    int stage = 0, turn = 0;
    for (int u = set(); u < units_; u += kSets) {
      wait_for_pieces(gate(stage), turn);
      const uint8_t* slab = at(stage);
      const PlaneUnit<kGroups> unit(slab + panel() * PlanePlan::kUnit,
                                    slab + kPanels * PlanePlan::kUnit);
      pass_on(u, unit);
      ask_next(u + kSets * kStages, stage, turn);
      sync_warp();
      if (++stage == kStages) stage = 0, ++turn;
    }
    sync_block();  // all units are added
    if (set() == 0) put_values();
    sync_block();
    if (set() == 0) finish();
  }

 private:
  static VEERY_GPU int set() { return warp() / kPanels; }
  static VEERY_GPU int panel() { return warp() % kPanels; }

  // Copies

  static VEERY_GPU uint8_t* at(int stage) {
    return shared_memory() + (set() * kStages + stage) * DeepPlan::kStage;
  }
  static VEERY_GPU Mbarrier* gate(int stage) {
    return reinterpret_cast<Mbarrier*>(shared_memory() + DeepPlan::kMbarriers) + set() * kStages +
           stage;
  }
  static VEERY_GPU Mbarrier* looked_at(int stage) { return gate(kSets * kStages + stage); }
  /// That the sums of a panel have been passed on by a set.
  static VEERY_GPU Mbarrier* passed_on(int by) {
    return reinterpret_cast<Mbarrier*>(shared_memory() + DeepPlan::kTurns) + panel() * kSets + by;
  }
  VEERY_GPU void begin() {
    if (lane() == 0 && panel() == 0)
      for (int s = 0; s < kStages; ++s) {
        make_mbarrier(gate(s), kPanels + 1);
        make_mbarrier(looked_at(s), kPanels * kWarp);
      }
    if (lane() == 0) make_mbarrier(passed_on(set()));
    sync_block();
    data_ = panel_data(panel_at(panel()));
    if (lane() == 0)
      for (int s = 0; s < kStages && set() + s * kSets < units_; ++s) {
        ask_panel(set() + s * kSets, s);
        if (panel() == 0) ask_rows(set() + s * kSets, s);
      }
    sync_warp();
  }
  VEERY_GPU void ask_panel(int u, int stage) const {
    ask_piece(gate(stage), at(stage) + panel() * PlanePlan::kUnit, data_ + u * PlanePlan::kUnit,
              PlanePlan::kUnit);
  }
  VEERY_GPU void ask_rows(int u, int stage) const {
    ask_piece(gate(stage), at(stage) + kPanels * PlanePlan::kUnit,
              form_group(a_.form, first_group_).slab(8 * u), DeepPlan::kForm);
  }
  /// The warp has looked at a stage, in which unit u comes next. One of each set asks for rows.
  VEERY_GPU void ask_next(int u, int stage, int turn) const {
    if (u >= units_) return;
    arrive(looked_at(stage));
    sync_warp();
    if (lane() != 0) return;
    ask_panel(u, stage);
    if (panel() != 0) return;
    wait_for_arrivals(looked_at(stage), turn);
    ask_rows(u, stage);
  }

  // Chains: of a panel, [4 numbers][lane], those of products and of minima.

  static VEERY_GPU Four<float>* sums() {
    return reinterpret_cast<Four<float>*>(shared_memory() + DeepPlan::kSums +
                                          panel() * DeepPlan::kOwnSums) +
           lane();
  }
  static VEERY_GPU void load_sums(float (&sum)[kGroups][4], float (&low)[kGroups][4]) {
    VEERY_UNROLL(4)
    for (int n = 0; n < kGroups; ++n) {
      const Four<float> x = sums()[n * kWarp], y = sums()[(kGroups + n) * kWarp];
      sum[n][0] = x.x, sum[n][1] = x.y, sum[n][2] = x.z, sum[n][3] = x.w;
      low[n][0] = y.x, low[n][1] = y.y, low[n][2] = y.z, low[n][3] = y.w;
    }
  }
  static VEERY_GPU void pass_on(int u, const PlaneUnit<kGroups>& unit) {
    float sum[kGroups][4] = {}, low[kGroups][4] = {};
    if (u > 0) wait_for_arrivals(passed_on((u - 1) % kSets), (u - 1) / kSets);
    if (u > 0) load_sums(sum, low);
    unit.add_to(sum, low);
    VEERY_UNROLL(4)
    for (int n = 0; n < kGroups; ++n) {
      sums()[n * kWarp] = {sum[n][0], sum[n][1], sum[n][2], sum[n][3]};
      sums()[(kGroups + n) * kWarp] = {low[n][0], low[n][1], low[n][2], low[n][3]};
    }
    arrive(passed_on(set()));
  }
  static VEERY_GPU void put_values() {
    float sum[kGroups][4], low[kGroups][4];
    load_sums(sum, low);
    put_sums(sum, low, panel(), tile_sums());
  }
  static_assert(kSumBytes <= DeepPlan::kSums);

  int units_;
  const uint8_t* data_;
};

VEERY_GPU void linear_deep(const LinearArguments& a) {
  wait_for_inputs();
  DeepProduct(a).run();
}

}  // namespace veery::gpu
