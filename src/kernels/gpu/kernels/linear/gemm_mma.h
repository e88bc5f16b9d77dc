// linear_tiles.h: products of many rows of x: a block of threads has some panels and some groups of
// 8 rows, whose slabs come by asynchronous copies while those before them are multiplied. The bits
// are those of linear.h.
//
// Of bf16 the slabs are asked for by a warp of its own, so that the others need not meet: each goes
// on as soon as its next slab is there.
#pragma once
#include "kernels/gpu/kernels/linear/x_groups.h"
#include "kernels/gpu/kernels/linear/mma_blocks.h"
#include "kernels/gpu/kernels/linear/gemm_outliers.h"
#include "kernels/gpu/kernels/linear/gemm_epilogue.h"

namespace veery::gpu {

template <TilePlan kPlan>
using OutputsOf = TileOutputs<kPlan.panels, kPlan.groups, kPlan.panels / kPlan.warps_m,
                              kPlan.warps_m * kPlan.warps_n * kWarp>;

template <Format kFormat, TilePlan kPlan>
class ManyProduct : OutputsOf<kPlan> {
 public:
  static constexpr FormatInfo kInfo = format_info(kFormat);
  static constexpr UnitPlaces kPlaces = unit_places(kFormat);
  static constexpr FormKind kKind = form_kind(kFormat);
  static constexpr TilePlaces kForm = tile_places(kKind, 256);
  using Outputs = OutputsOf<kPlan>;
  static constexpr int kM = kPlan.panels / kPlan.warps_m, kN = kPlan.groups / kPlan.warps_n;
  using Outputs::a_, Outputs::rows_, Outputs::first_group_;
  using Outputs::panel_at, Outputs::panel_data;
  static constexpr int kPieces = kPlan.panels + kPlan.groups;  // of a slab
  static constexpr int kWorkers = kPlan.warps_m * kPlan.warps_n;
  static constexpr int kAsks = kFormat == kBF16 ? kWorkers : 0;  // the warp that asks for slabs
  static_assert(kPieces <= kWarp && kM % 2 == 0);

  VEERY_GPU explicit ManyProduct(const LinearArguments& arguments)
      : Outputs(arguments),
        units_((a_.form.cols + kInfo.block - 1) / kInfo.block),
        slabs_((units_ + kPlan.each - 1) / kPlan.each) {}

  VEERY_GPU void run() {
    if (first_group_ * 8 >= rows_) return;
    if constexpr (kFormat == kBF16) {
      run_pieces();
    } else {
      run_coded();
    }
  }

 private:
  VEERY_GPU void run_coded() {
    if (thread() < kPlan.stages) make_mbarrier(gate(thread()));
    sync_block();
    choose_piece();
    for (int s = 0; s < kPlan.stages; ++s) ask(s, s);
    int used = 0, turn = 0;
    for (int s = 0; s < slabs_; ++s) {
      wait_for_pieces(gate(used), turn);
      const uint8_t* stage = shared_memory() + used * kPlan.stage_bytes;
      const uint8_t* weights = stage + warp_m() * kM * kPlan.weight_bytes;
      const uint8_t* form =
          stage + kPlan.panels * kPlan.weight_bytes + warp_n() * kN * kPlan.form_bytes;
      if constexpr (kInfo.block == 256)
        super_block(weights, form);
      else
        some_blocks(weights, form, units_ - s * kPlan.each);
      sync_block();  // nobody looks at the stage any more
      ask(s + kPlan.stages, used);
      if (++used == kPlan.stages) used = 0, ++turn;
    }
    store();
  }

  VEERY_GPU int stages() const {
    if constexpr (kFormat == kBF16) return tile_stages(kPlan, a_.room);
    return kPlan.stages;
  }
  static VEERY_GPU int warp_m() { return warp() % kPlan.warps_m; }
  static VEERY_GPU int warp_n() { return warp() / kPlan.warps_m; }

  VEERY_GPU const uint8_t* group_data(int n) const {
    const int last = (rows_ + 7) / 8 - 1;
    return a_.form.data +
           int64_t{first_group_ + n < last ? first_group_ + n : last} * a_.form.stride;
  }

  // Copies

  VEERY_GPU Mbarrier* gate(int stage) const {
    const int at = kFormat == kBF16 ? stages() * kPlan.stage_bytes : kPlan.gates;
    return reinterpret_cast<Mbarrier*>(shared_memory() + at) + stage;
  }
  /// What a lane of the warp that asks wants of each slab: a panel's or a group's.
  VEERY_GPU void choose_piece() {
    const bool is_panel = lane() < kPlan.panels;
    const int n = is_panel || lane() >= kPieces ? 0 : lane() - kPlan.panels;
    if (kFormat == kBF16 && !is_panel) {
      piece_ = form_group(a_.form, first_group_).at;
      place_ = kPlan.panels * kPlan.weight_bytes, step_ = kGroupsTogether * kForm.slab;
      left_ = slabs_ * groups() * kPlan.form_bytes;
    } else if (is_panel) {
      piece_ = panel_data(panel_at(lane()));
      place_ = lane() * kPlan.weight_bytes, step_ = kPlan.weight_bytes;
      left_ = units_ * kPlaces.bytes;
    } else {
      piece_ = group_data(n);
      place_ = kPlan.panels * kPlan.weight_bytes + n * kPlan.form_bytes, step_ = kForm.slab;
      left_ = slabs_ * kPlan.form_bytes;
    }
  }
  /// Slab s. Of bf16 all groups that are there lie together.
  VEERY_GPU void ask(int s, int stage) {
    if (warp() != kAsks || s >= slabs_) return;
    struct Piece {
      uint8_t* to;
      const uint8_t* from;
      int bytes;
    };
    const int most = lane() < kPlan.panels ? kPlan.weight_bytes
                     : kFormat == kBF16    ? groups() * kPlan.form_bytes
                                           : kPlan.form_bytes;
    const int count = kFormat == kBF16 ? kPlan.panels + 1 : kPieces;
    ask_pieces(gate(stage), count, [&](int) {
      return Piece{shared_memory() + stage * kPlan.stage_bytes + place_, piece_,
                   left_ < most ? left_ : most};
    });
    piece_ += step_, left_ -= most;
  }

  // Pieces of bf16

  /// Groups of the block that are there.
  VEERY_GPU int groups() const {
    const int left = (rows_ + 7) / 8 - first_group_;
    return left < kPlan.groups ? left : kPlan.groups;
  }
  VEERY_GPU Mbarrier* looked_at(int stage) const { return gate(stages() + stage); }
  /// A warp asks for slabs, as soon as all others have looked at those whose place they take.
  VEERY_GPU void run_pieces() {
    const int most = stages();
    if (thread() < most) {
      make_mbarrier(gate(thread()));
      make_mbarrier(looked_at(thread()), kWorkers * kWarp);
    }
    sync_block();
    if (warp() == kAsks) {
      choose_piece();
      for (int s = 0, stage = 0, turn = 0; s < slabs_; ++s) {
        if (turn > 0) wait_for_arrivals(looked_at(stage), turn - 1);
        sync_warp();
        ask(s, stage);
        if (++stage == most) stage = 0, ++turn;
      }
    } else {
      const int here = groups() - warp_n() * kN;
      for (int s = 0, stage = 0, turn = 0; s < slabs_; ++s) {
        wait_for_pieces(gate(stage), turn);
        add_slab(shared_memory() + stage * kPlan.stage_bytes, units_ - s * kPlan.each, here);
        arrive(looked_at(stage));
        if (++stage == most) stage = 0, ++turn;
        if ((s + 1) % (kPieceColumns / 128) == 0 || s + 1 == slabs_) add_piece();
      }
    }
    sync_block();  // nobody looks at the stages any more
    store();
  }
  /// `left`: units that there are; `here`: groups of the warp. The usual ones are unrolled.
  VEERY_GPU void add_slab(const uint8_t* stage, int left, int here) {
    const uint8_t* weights = stage + warp_m() * kM * kPlan.weight_bytes;
    const uint8_t* form =
        stage + kPlan.panels * kPlan.weight_bytes + warp_n() * kN * kPlan.form_bytes;
    if (here >= kN && left >= kPlan.each) {
      VEERY_UNROLL(8)
      for (int j = 0; j < kPlan.each; ++j) add_unit<kN>(weights, form, j, kN);
    } else if (here == 1 && left >= kPlan.each) {
      VEERY_UNROLL(8)
      for (int j = 0; j < kPlan.each; ++j) add_unit<1>(weights, form, j, 1);
    } else {
      VEERY_UNROLL(1)
      for (int j = 0; j < kPlan.each && j < left; ++j) add_unit<kN>(weights, form, j, here);
    }
  }
  /// 16 columns: `here` groups, at most kMost.
  template <int kMost>
  VEERY_GPU void add_unit(const uint8_t* weights, const uint8_t* form, int j, int here) {
    Two<uint32_t> b[kMost] = {};
    VEERY_UNROLL(4)
    for (int n = 0; n < kMost; ++n)
      if (n < here) b[n] = load_halves_of_16(form + n * kPlan.form_bytes + j * 256);
    VEERY_UNROLL(4)
    for (int m = 0; m < kM; ++m) {
      uint32_t tile[4];
      load_tile<kFormat>(weights + m * kPlan.weight_bytes + j * kPlaces.bytes, tile);
      VEERY_UNROLL(4)
      for (int n = 0; n < kMost; ++n)
        if (n < here) multiply_bf16(part_[m][n], tile, b[n].x, b[n].y);
    }
  }
  VEERY_GPU void add_piece() {
    VEERY_UNROLL(4)
    for (int m = 0; m < kM; ++m) VEERY_UNROLL(4)
    for (int n = 0; n < kN; ++n) VEERY_UNROLL(4)
    for (int i = 0; i < 4; ++i) {
      sum_[m][n][i] = sum_[m][n][i] + part_[m][n][i];
      part_[m][n][i] = 0;
    }
  }

  // Blocks of 32

  struct Factors {
    Two<float> scale;
    Two<int32_t> sum;
    Two<float> moment;
  };
  VEERY_GPU void some_blocks(const uint8_t* weights, const uint8_t* form, int left) {
    VEERY_UNROLL(4)
    for (int b = 0; b < 4; ++b) {
      if (b >= left) continue;
      sync_warp();
      add_block(weights + b * kPlaces.bytes, form, b);
    }
  }
  static VEERY_GPU Factors factors_of(const uint8_t* form, int b) {
    const uint8_t* at = form + b * 32 + lane() % 4 * 8;
    Factors f{load<Two<float>>(at + kForm.scale), {0, 0}, {0, 0}};
    if constexpr (kInfo.less != 0) f.sum = load<Two<int32_t>>(at + kForm.sum);
    if constexpr (kInfo.minima) f.moment = load<Two<float>>(at + kForm.moment);
    return f;
  }
  VEERY_GPU void add_block(const uint8_t* units, const uint8_t* form, int b) {
    Two<uint32_t> codes[kN];
    Factors factors[kN];
    VEERY_UNROLL(4)
    for (int n = 0; n < kN; ++n) {
      const uint8_t* own = form + n * kPlan.form_bytes;
      codes[n] = load<Two<uint32_t>>(own + b * 256 + lane() * 8), factors[n] = factors_of(own, b);
    }
    VEERY_UNROLL(4)
    for (int m = 0; m < kM; ++m) {
      const uint8_t* unit = units + m * kPlan.weight_bytes;
      uint32_t tile[4];
      load_tile<kFormat>(unit, tile);
      Two<float> least = {0, 0};
      if constexpr (kInfo.minima) least = load_minima<kFormat>(unit);
      VEERY_UNROLL(2)
      for (int h = 0; h < (has_halves(kFormat) ? 2 : 1); ++h) {
        const Two<float> d = load_scales<kFormat>(unit, h);
        VEERY_UNROLL(4)
        for (int n = 0; n < kN; ++n) {
          const Factors& f = factors[n];
          int32_t c[4];
          multiply_block<kFormat>(c, tile, codes[n], f.sum, h);
          VEERY_UNROLL(4)
          for (int i = 0; i < 4; ++i) {
            const float scale = i % 2 == 0 ? f.scale.x : f.scale.y;
            sum_[m][n][i] = fma((i < 2 ? d.x : d.y) * scale, from_whole_bits(c[i]), sum_[m][n][i]);
            if constexpr (kInfo.minima)
              low_[m][n][i] = fma(i < 2 ? least.x : least.y, i % 2 == 0 ? f.moment.x : f.moment.y,
                                  low_[m][n][i]);
          }
        }
      }
    }
  }

  // Blocks of 256

  VEERY_GPU void super_block(const uint8_t* weights, const uint8_t* form) {
    using Block = SuperBlock<kFormat, kM, kN, kPlan.weight_bytes, kPlan.form_bytes>;
    int32_t all[kM][kN][4] = {};
    Block::add_up(weights, form, kN, all);
    VEERY_UNROLL(4)
    for (int m = 0; m < kM; ++m) {
      const uint8_t* unit = weights + m * kPlan.weight_bytes;
      const Two<float> d = load_scales<kFormat>(unit);
      Two<float> least = {0, 0};
      typename Block::Minima minima;
      if constexpr (kInfo.minima) {
        least = load_halves(unit + kPlaces.m);
        minima.load(unit);
      }
      VEERY_UNROLL(4)
      for (int n = 0; n < kN; ++n) {
        const uint8_t* at = form + n * kPlan.form_bytes;
        const auto scale = load<Two<float>>(at + kForm.scale + lane() % 4 * 8);
        float lows[4] = {0, 0, 0, 0};
        if constexpr (kInfo.minima) minima.add_up(at, lows);
        VEERY_UNROLL(4)
        for (int i = 0; i < 4; ++i) {
          const float own = i % 2 == 0 ? scale.x : scale.y;
          sum_[m][n][i] =
              fma((i < 2 ? d.x : d.y) * own, static_cast<float>(all[m][n][i]), sum_[m][n][i]);
          if constexpr (kInfo.minima)
            low_[m][n][i] = fma((i < 2 ? least.x : least.y) * own, lows[i], low_[m][n][i]);
        }
      }
    }
  }

  // Outputs

  static constexpr bool kOutliers = kInfo.block == 32;
  using Outliers = TileOutliers<kFormat, kPlan.groups * 8, kPlan.panels>;
  static_assert(kOutliers ? kPlan.panels == kWorkers &&
                                Outputs::kSumBytes + Outliers::kPlaces.bytes <= kPlan.gates
                          : Outputs::kSumBytes <= kPlan.least * kPlan.stage_bytes);

  /// By way of shared memory, so that a warp has outputs that are neighbours.
  VEERY_GPU void store() {
    if (warp() < kWorkers) put_sums();
    sync_block();
    if constexpr (kOutliers) {
      Outliers(a_.form, first_group_, rows_ - 8 * first_group_,
               shared_memory() + Outputs::kSumBytes)
          .add(panel_data(panel_at(warp())), Outputs::tile_sums());
      if constexpr (kInfo.minima) {
        add_lows();
        sync_block();
      }
    }
    if (warp() < kWorkers) this->finish();
  }
  /// Of blocks of 32 minima are added when outliers have been.
  VEERY_GPU void put_sums() const {
    VEERY_UNROLL(4)
    for (int m = 0; m < kM; ++m) VEERY_UNROLL(4)
    for (int n = 0; n < kN; ++n) {
      float sum[4];
      VEERY_UNROLL(4)
      for (int i = 0; i < 4; ++i) {
        sum[i] = sum_[m][n][i];
        if constexpr (kInfo.minima && !kOutliers) sum[i] = sum[i] - low_[m][n][i];
      }
      Outputs::tile_sums().put(warp_n() * kN + n, warp_m() * kM + m, sum);
    }
  }
  VEERY_GPU void add_lows() const {
    VEERY_UNROLL(4)
    for (int m = 0; m < kM; ++m) VEERY_UNROLL(4)
    for (int n = 0; n < kN; ++n) VEERY_UNROLL(2)
    for (int i = 0; i < 2; ++i) {
      const int row = ((warp_n() * kN + n) * 8 + lane() % 4 * 2 + i) * Outputs::kStride;
      Two<float>& of = Outputs::tile_sums().pair(row, warp_m() * kM + m);
      of = {of.x + low_[m][n][i], of.y + low_[m][n][i + 2]};
    }
  }
  int units_, slabs_;
  const uint8_t* piece_;  ///< of the lane's next slab, of which left_ bytes are left
  int place_, step_, left_;
  /// [panel][8 rows of x][outputs g, g of the panel, g + 8, g + 8 of rows 2 t, 2 t + 1, ..]
  float sum_[kM][kN][4] = {};
  float low_[kInfo.minima ? kM : 1][kInfo.minima ? kN : 1][4] = {};
  float part_[kFormat == kBF16 ? kM : 1][kFormat == kBF16 ? kN : 1][4] = {};  ///< of a piece
};

template <Format kFormat, bool kSmall>
VEERY_GPU void linear_tiles(const LinearArguments& a) {
  wait_for_inputs();
  ManyProduct<kFormat, tile_plan(kFormat, kSmall)>(a).run();
}

}  // namespace veery::gpu
