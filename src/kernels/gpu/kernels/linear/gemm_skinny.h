// linear_groups.h: products of a few groups of 8 rows of x, where the weights' way to the
// processors is still what takes the time: as linear_row.h has them, each item multiplied with all
// rows. The bits are those of linear.h.
#pragma once
#include "kernels/gpu/smem/gemm_skinny_smem.h"
#include "kernels/gpu/kernels/linear/x_groups.h"
#include "kernels/gpu/kernels/linear/weight_ring.h"
#include "kernels/gpu/kernels/linear/mma_blocks.h"
#include "kernels/gpu/kernels/linear/tickets.h"

namespace veery::gpu {

/// Sums of a panel as lanes of mma have them: [group][outputs g, g, g + 8, g + 8 of rows 2 t, 2 t +
/// 1, ..]; `low`: of minima, where there are such.
template <Format kFormat, int kGroups>
struct GroupSums {
  static constexpr bool kMinima = format_info(kFormat).minima;
  static constexpr int kLows = kMinima ? kGroups : 1;
  float sum[kGroups][4], low[kLows][4];

  VEERY_GPU void clear() { *this = {}; }
  template <typename Each>
  VEERY_GPU void each(const Each& of) {
    VEERY_UNROLL(4)
    for (int n = 0; n < kGroups; ++n) VEERY_UNROLL(4)
    for (int i = 0; i < 4; ++i) {
      of(sum[n][i], n * 4 + i);
      if constexpr (kMinima) of(low[n][i], (kGroups + n) * 4 + i);
    }
  }
};

/// What an item adds to the sums of its panel. find() does what needs no sums.
template <Format kFormat, int kGroups>
class GroupSteps {
 public:
  static constexpr FormatInfo kInfo = format_info(kFormat);
  static constexpr UnitPlaces kPlaces = unit_places(kFormat);
  static constexpr TilePlaces kForm = tile_places(form_kind(kFormat), 256);
  static constexpr TilePlan kTile = tile_plan(kFormat, true);
  static constexpr int kUnits = row_units(kFormat);
  static constexpr int kFormBytes = kTile.form_bytes;
  using Sums = GroupSums<kFormat, kGroups>;

  /// An item, its chunk of x, the units and groups that there are of them.
  struct Item {
    const uint8_t *units, *form;
    int left, here;

    VEERY_GPU const uint8_t* unit(int j) const { return units + j * kPlaces.bytes; }
    VEERY_GPU const uint8_t* slab(int j, int n) const {
      return form + (j / kTile.each * kGroups + n) * kFormBytes;
    }
  };

  VEERY_GPU void find(const Item& of) {
    VEERY_UNROLL(16)
    for (int j = 0; j < kUnits; ++j) {
      if (j >= of.left) continue;
      if constexpr (kFormat == kBF16)
        add_bf16(of, j);
      else if constexpr (kInfo.block == 32)
        find_block(of, j);
      else
        find_super_block(of, j);
    }
  }
  VEERY_GPU void add(const Item& of, Sums& to) const {
    if constexpr (kFormat == kBF16) {
      to.each([&](float& sum, int at) { sum = sum + value_[0][at / 4][at % 4]; });
    } else {
      VEERY_UNROLL(8)
      for (int j = 0; j < kUnits; ++j)
        if (j < of.left) add_unit(of, j, to);
    }
  }

 private:
  static constexpr bool kBlocks = kInfo.block == 32;
  static constexpr int kHalves = has_halves(kFormat) ? 2 : 1;  // steps of a block of 32

  VEERY_GPU void add_bf16(const Item& of, int j) {
    uint32_t tile[4];
    load_tile<kFormat>(of.unit(j), tile);
    VEERY_UNROLL(4)
    for (int n = 0; n < kGroups; ++n) {
      if (n >= of.here) continue;
      const auto b = load_halves_of_16(of.slab(j, n) + j % kTile.each * 256);
      multiply_bf16(value_[0][n], tile, b.x, b.y);
    }
  }
  VEERY_GPU void find_block(const Item& of, int j) {
    uint32_t tile[4];
    load_tile<kFormat>(of.unit(j), tile);
    const int b = j % kTile.each;
    VEERY_UNROLL(4)
    for (int n = 0; n < kGroups; ++n) {
      if (n >= of.here) continue;
      const uint8_t* form = of.slab(j, n);
      const auto codes = load<Two<uint32_t>>(form + b * 256 + lane() * 8);
      Two<int32_t> sum = {0, 0};
      if constexpr (kInfo.less != 0) sum = load<Two<int32_t>>(form + factor_place(kForm.sum, b));
      VEERY_UNROLL(2)
      for (int h = 0; h < kHalves; ++h) {
        int32_t c[4];
        multiply_block<kFormat>(c, tile, codes, sum, h);
        VEERY_UNROLL(4)
        for (int i = 0; i < 4; ++i) value_[j * kHalves + h][n][i] = from_whole_bits(c[i]);
      }
    }
  }
  VEERY_GPU void find_super_block(const Item& of, int j) {
    static_assert(kTile.each == 1 || kBlocks || kFormat == kBF16);
    using Block = SuperBlock<kFormat, 1, kGroups, 0, kFormBytes, /*kMeets=*/false>;
    int32_t all[1][kGroups][4] = {};
    Block::add_up(of.unit(j), of.slab(j, 0), of.here, all);
    VEERY_UNROLL(4)
    for (int n = 0; n < kGroups; ++n) VEERY_UNROLL(4)
    for (int i = 0; i < 4; ++i) value_[j][n][i] = static_cast<float>(all[0][n][i]);
    if constexpr (kInfo.minima) {
      typename Block::Minima minima;
      minima.load(of.unit(j));
      VEERY_UNROLL(4)
      for (int n = 0; n < kGroups; ++n)
        if (n < of.here) minima.add_up(of.slab(j, n), low_[j][n]);
    }
    const Two<float> d = load_scales<kFormat>(of.unit(j));
    Two<float> least = {0, 0};
    if constexpr (kInfo.minima) least = load_minima<kFormat>(of.unit(j));
    VEERY_UNROLL(4)
    for (int n = 0; n < kGroups; ++n) {
      if (n >= of.here) continue;
      const auto scale = load<Two<float>>(of.slab(j, n) + factor_place(kForm.scale, 0));
      VEERY_UNROLL(4)
      for (int i = 0; i < 4; ++i) {
        const float own = i % 2 == 0 ? scale.x : scale.y;
        factor_[j][n][i] = (i < 2 ? d.x : d.y) * own;
        if constexpr (kInfo.minima) low_factor_[j][n][i] = (i < 2 ? least.x : least.y) * own;
      }
    }
  }

  static VEERY_GPU int factor_place(int place, int b) { return place + b * 32 + lane() % 4 * 8; }
  VEERY_GPU void add_unit(const Item& of, int j, Sums& to) const {
    if constexpr (kBlocks) return add_block(of, j, to);
    VEERY_UNROLL(4)
    for (int n = 0; n < kGroups; ++n) VEERY_UNROLL(4)
    for (int i = 0; i < 4; ++i) {
      if (n >= of.here) continue;
      to.sum[n][i] = fma(factor_[j][n][i], value_[j][n][i], to.sum[n][i]);
      if constexpr (kInfo.minima)
        to.low[n][i] = fma(low_factor_[j][n][i], low_[j][n][i], to.low[n][i]);
    }
  }
  VEERY_GPU void add_block(const Item& of, int j, Sums& to) const {
    const int b = j % kTile.each;
    Two<float> least = {0, 0};
    if constexpr (kInfo.minima) least = load_minima<kFormat>(of.unit(j));
    VEERY_UNROLL(2)
    for (int h = 0; h < kHalves; ++h) {
      const Two<float> d = load_scales<kFormat>(of.unit(j), h);
      VEERY_UNROLL(4)
      for (int n = 0; n < kGroups; ++n) {
        if (n >= of.here) continue;
        const uint8_t* form = of.slab(j, n);
        const auto scale = load<Two<float>>(form + factor_place(kForm.scale, b));
        Two<float> moment = {0, 0};
        if constexpr (kInfo.minima) moment = load<Two<float>>(form + factor_place(kForm.moment, b));
        VEERY_UNROLL(4)
        for (int i = 0; i < 4; ++i) {
          const float own = i % 2 == 0 ? scale.x : scale.y;
          to.sum[n][i] =
              fma((i < 2 ? d.x : d.y) * own, value_[j * kHalves + h][n][i], to.sum[n][i]);
          if constexpr (kInfo.minima)
            to.low[n][i] =
                fma(i < 2 ? least.x : least.y, i % 2 == 0 ? moment.x : moment.y, to.low[n][i]);
        }
      }
    }
  }

  static constexpr int kSuper = kBlocks || kFormat == kBF16 ? 1 : kUnits;
  static constexpr int kLows = kInfo.minima ? kSuper : 1;
  float value_[kFormat == kBF16 ? 1 : kUnits * kHalves][kGroups][4] = {};
  float factor_[kSuper][kGroups][4] = {};  // these of blocks of 256
  float low_[kLows][kGroups][4] = {}, low_factor_[kLows][kGroups][4] = {};
};

template <Format kFormat, bool kMany>
class GroupProduct {
 public:
  static constexpr int kGroups = most_groups(kMany);
  static constexpr FormatInfo kInfo = format_info(kFormat);
  static constexpr TilePlaces kForm = tile_places(form_kind(kFormat), 256);
  static constexpr int kFormBytes = tile_plan(kFormat, true).form_bytes;
  using Steps = GroupSteps<kFormat, kGroups>;
  using Sums = typename Steps::Sums;
  using Ring = ItemRing<kFormat, Steps::kUnits, 0>;

  VEERY_GPU explicit GroupProduct(const LinearArguments& arguments)
      : a_(arguments),
        plan_(group_plan(kFormat, kMany, arguments.form.cols, arguments.room)),
        turns_(shared_memory() + plan_.turns),
        ring_(arguments, {plan_.mbarriers, plan_.ring, plan_.item_bytes, plan_.stages}, warp()) {}

  VEERY_GPU void run() {
    allow_next();
    begin();
    wait_for_inputs();
    rows_ = static_cast<int>(a_.run.count(a_.rows)) * terms();
    here_ = (rows_ + 7) / 8;
    if (brings_chunks())
      bring_chunks();
    else
      here_ > 0 ? multiply() : ring_.drain();
  }

 private:
  /// The warp behind those that multiply.
  VEERY_GPU bool brings_chunks() const { return warp() == plan_.warps; }
  VEERY_GPU int terms() const { return a_.form.two_terms != 0 ? 2 : 1; }
  VEERY_GPU bool has_outliers() const { return kInfo.block == 32 && terms() == 1; }
  /// Sums on their way from item to item of a panel.
  VEERY_GPU float* late(int slot) const {
    return reinterpret_cast<float*>(shared_memory()) + slot * plan_.values * kWarp;
  }
  /// The largest output of row r that the warp has found, as keep_largest() takes it.
  VEERY_GPU uint64_t& best(int r) const {
    return reinterpret_cast<uint64_t*>(shared_memory() + plan_.best)[warp() * 8 * kGroups + r];
  }
  VEERY_GPU uint32_t* outliers() const {
    return reinterpret_cast<uint32_t*>(shared_memory() + plan_.outliers);
  }
  VEERY_GPU Mbarrier* chunk_mbarrier(int stage) const {
    return reinterpret_cast<Mbarrier*>(shared_memory() + plan_.chunk_mbarriers) + stage;
  }
  VEERY_GPU uint8_t* chunk_at(int stage) const {
    return shared_memory() + plan_.chunks_at + stage * plan_.chunk_bytes;
  }
  VEERY_GPU const uint8_t* group_data(int n) const {
    return a_.form.data + int64_t{n} * a_.form.stride;
  }

  VEERY_GPU void begin() {
    if (brings_chunks()) {
      if (lane() < plan_.chunks) make_mbarrier(chunk_mbarrier(lane()));
    } else {
      ring_.begin();
      ring_.fill();
      if (lane() < 8 * kGroups) best(lane()) = 0;
    }
    turns_.make(ring_.slots(), ring_.turns(), plan_.warps);
    sync_block();
  }

  // What comes

  /// The chunks of all slots that are under way together, one after the other.
  VEERY_GPU void bring_chunks() {
    const int slots = ring_.slots(), chunks = ring_.chunks();
    const int all = here_ > 0 ? ring_.turns() : 0;
    for (int i = 0; i < all; ++i) {
      if (i == plan_.chunks) find_outliers();
      if (const int before = i - plan_.chunks; before >= 0) {
        const int left = slots - before / chunks * GroupPlan::kSlots;
        for (int s = 0; s < GroupPlan::kSlots && s < left; ++s) turns_.wait(s, before + 1);
        sync_warp();
      }
      ask_chunk(i % chunks, i % plan_.chunks);
    }
    if (all > 0 && all <= plan_.chunks) find_outliers();
  }
  VEERY_GPU void ask_chunk(int chunk, int stage) const {
    struct Piece {
      uint8_t* to;
      const uint8_t* from;
      int bytes;
    };
    constexpr int kEach = tile_plan(kFormat, true).each;
    const int slabs = (ring_.units() + kEach - 1) / kEach, first = chunk * plan_.slabs;
    const int left = slabs - first < plan_.slabs ? slabs - first : plan_.slabs;
    if constexpr (kFormat == kBF16) {  // all groups of a slab lie together
      const FormGroup group = form_group(a_.form, 0);
      ask_pieces(chunk_mbarrier(stage), left, [&](int s) {
        return Piece{chunk_at(stage) + s * kGroups * kFormBytes,
                     group.at + int64_t{first + s} * kGroupsTogether * kForm.slab,
                     here_ * kFormBytes};
      });
    } else {
      ask_pieces(chunk_mbarrier(stage), left * here_, [&](int i) {
        const int s = i / here_, n = i % here_;
        return Piece{chunk_at(stage) + (s * kGroups + n) * kFormBytes,
                     group_data(n) + int64_t{first + s} * kForm.slab, kFormBytes};
      });
    }
  }
  /// The blocks that are outliers of any row.
  VEERY_GPU void find_outliers() const {
    if (!has_outliers()) return;
    const TilePlaces places = tile_places(form_kind(kFormat), a_.form.cols);
    for (int i = lane(); i < (ring_.units() + 31) / 32; i += kWarp) outliers()[i] = 0;
    sync_warp();
    if (lane() < 8 * here_) {
      const auto* list =
          reinterpret_cast<const int32_t*>(group_data(lane() / 8) + places.outliers) +
          lane() % 8 * places.list;
      constexpr int kAhead = 8;
      const int count = *list++;
      for (int e = 0; e < count; e += kAhead) {
        int32_t block[kAhead];
        VEERY_UNROLL(8)
        for (int i = 0; i < kAhead; ++i) block[i] = list[e + i < count ? e + i : e];
        VEERY_UNROLL(8)
        for (int i = 0; i < kAhead; ++i) set_bits(outliers() + block[i] / 32, 1U << block[i] % 32);
      }
    }
    sync_warp();
    turns_.pass_outliers();
  }

  // Products

  VEERY_GPU void multiply() {
    for (RowItems<0> at = ring_.first(); !at.ended(); at.next()) {
      const int turn = at.turn(), stage = turn % plan_.chunks;
      const uint8_t* units = ring_.wait();
      wait_for_pieces(chunk_mbarrier(stage), turn / plan_.chunks);
      const typename Steps::Item item = {units, chunk_at(stage),
                                         ring_.units() - at.chunk * Steps::kUnits, here_};
      Steps steps;
      steps.find(item);
      Sums sums;
      begin_sums(at, sums);
      steps.add(item, sums);
      if (at.chunk + 1 == at.chunks) {
        finish(at, sums);
      } else {
        float* to = late(at.slot) + lane();
        sums.each([&](float& value, int i) { to[i * kWarp] = value; });
      }
      // Neither the sums nor the item and its chunk are looked at any more.
      turns_.pass(at.slot, turn);
      sync_warp();
      ring_.next();
    }
    if (a_.best == nullptr) return;
    sync_warp();
    if (lane() < 8 * kGroups && best(lane()) != 0) keep_largest(a_.best + lane(), best(lane()));
  }
  /// Those that the item before has passed on.
  VEERY_GPU void begin_sums(const RowItems<0>& at, Sums& sums) const {
    turns_.wait(at.slot, at.turn());
    sums.clear();
    const float* from = late(at.slot) + lane();
    if (at.chunk > 0)
      sums.each([&](float& value, int i) { value = from[i * kWarp]; });
    else if (a_.gated != 0 && at.slot % 2 == 0)
      turns_.wait_for_gates(at.slot, at.panel());
  }

  /// Where an output of a row is in late(), once its sum is known: no two lanes want the same bank.
  static VEERY_GPU int value_place(int row, int output) {
    return row / 2 * 32 + ((row % 2 * 16 + output + row / 2 * 8) & 31);
  }
  VEERY_GPU void finish(const RowItems<0>& at, Sums& sums) const {
    const int own = at.group + at.slot, turn = at.turn();
    const PanelOf of = ring_.panel_of(own);
    if (has_outliers()) add_residual(a_.weight[of.weight], of.panel, sums);
    float* to = late(at.slot);
    sync_warp();  // all lanes have what the item before has passed on
    VEERY_UNROLL(4)
    for (int n = 0; n < kGroups; ++n) VEERY_UNROLL(4)
    for (int i = 0; i < 4; ++i) {
      float y = sums.sum[n][i];
      if constexpr (kInfo.minima) y = kInfo.block == 32 ? y + sums.low[n][i] : y - sums.low[n][i];
      to[value_place(n * 8 + lane() % 4 * 2 + i % 2, lane() / 4 + i / 2 * 8)] = y;
    }
    sync_warp();
    if (a_.gated == 0) {
      store(of, to, to);
    } else if (own % 2 != 0) {
      turns_.wait(at.slot - 1, turn + 1);
      store({0, of.panel}, late(at.slot - 1), to);
    }
    if (a_.gated != 0 && own % 2 != 0) turns_.pass_gate(at.slot);
  }
  /// Not unrolled: what is done so rarely should take little of the memory for instructions.
  VEERY_GPU void store(PanelOf of, const float* values, const float* ups) const {
    const int output = of.panel * 16 + lane() % 16;
    const bool is_output = output < a_.weight[of.weight].rows;
    VEERY_UNROLL(1)
    for (int r = lane() / 16; r < 8 * here_ / terms(); r += 2) {
      uint64_t key = 0;
      if (is_output && r * terms() < rows_) {
        float y = values[value_place(r * terms(), lane() % 16)];
        if (terms() == 2) y = y + values[value_place(2 * r + 1, lane() % 16)];
        const float up = a_.gated != 0 ? ups[value_place(r * terms(), lane() % 16)] : 0.0F;
        key = finish_output(a_, r, of.weight, output, y, up);
      }
      if (a_.best == nullptr) continue;
      VEERY_UNROLL(4)
      for (int mask = 1; mask < 16; mask *= 2) {
        const uint64_t other = shuffle_xor(key, mask);
        key = other > key ? other : key;
      }
      if (lane() % 16 == 0 && key > best(r)) best(r) = key;
    }
  }
  VEERY_GPU void add_residual(const Weight& w, int panel, Sums& sums) const {
    turns_.wait_for_outliers();
    for (int word = 0; word < (ring_.units() + 31) / 32; ++word)
      for (uint32_t left = outliers()[word]; left != 0; left &= left - 1)
        add_residual(w.data + int64_t{panel} * w.panel,
                     32 * word + bit_count((left & (0U - left)) - 1), sums);
  }
  VEERY_GPU void add_residual(const uint8_t* units, int b, Sums& sums) const {
    const TilePlaces places = tile_places(form_kind(kFormat), a_.form.cols);
    const uint8_t* unit = units + int64_t{b} * unit_places(kFormat).bytes;
    uint32_t tile[4];
    sync_warp();
    load_tile<kFormat>(unit, tile);
    const int own = b * 32 + lane() % 4 * 8;
    VEERY_UNROLL(4)
    for (int n = 0; n < kGroups; ++n) {
      if (n >= here_) continue;
      const uint8_t* group = group_data(n);
      const auto codes = load<Two<uint32_t>>(group + places.residual + b * 256 + lane() * 8);
      const auto scale = load<Two<float>>(group + places.residual_scale + own);
      Two<int32_t> less = {0, 0};
      if constexpr (kInfo.less != 0) less = load<Two<int32_t>>(group + places.residual_sum + own);
      VEERY_UNROLL(2)
      for (int h = 0; h < (has_halves(kFormat) ? 2 : 1); ++h) {
        const Two<float> d = load_scales<kFormat>(unit, h);
        int32_t c[4];
        multiply_block<kFormat>(c, tile, codes, less, h);
        VEERY_UNROLL(4)
        for (int i = 0; i < 4; ++i) {
          const float factor = i % 2 == 0 ? scale.x : scale.y;
          if (factor > 0)
            sums.sum[n][i] =
                fma((i < 2 ? d.x : d.y) * factor, from_whole_bits(c[i]), sums.sum[n][i]);
        }
      }
    }
  }

  const LinearArguments& a_;
  GroupPlan plan_;
  Turns turns_;
  Ring ring_;
  int rows_ = 0, here_ = 0;
};

template <Format kFormat, bool kMany>
VEERY_GPU void linear_groups(const LinearArguments& a) {
  GroupProduct<kFormat, kMany>(a).run();
}

}  // namespace veery::gpu
