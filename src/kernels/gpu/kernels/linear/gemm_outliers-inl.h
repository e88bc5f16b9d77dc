// gemm_outliers-inl.h: adds the residuals of outlier blocks (quantize_x.h) to the sums of a GEMM
// tile. A block of 32 columns is an outlier of few rows, so those rows are gathered as the columns
// of one mma.
#pragma once
#include "kernels/gpu/kernels/linear/gemm_epilogue-inl.h"
#include "kernels/gpu/kernels/linear/mma_blocks-inl.h"
#include "kernels/gpu/kernels/linear/x_groups-inl.h"
#include "kernels/gpu/smem/tickets_smem.h"

namespace veery::gpu {

/// The residual codes of one block for up to 8 rows in which it is an outlier, as an mma B
/// fragment, and the scale and sum of each row. `sums_offset`: of the row in GemmSums, or -1.
struct alignas(16) OutlierColumns {
  Two<uint32_t> codes[kWarp];
  float scale[8];  ///< 0 if there is no row
  int32_t sum[8], sums_offset[8];
  int32_t block, unused[7];
};
static_assert(sizeof(OutlierColumns) == OutlierSmem::kColumnBytes);

/// Adds the products with the residuals of outlier blocks, for `rows` <= kRows rows of activations
/// from group `first` on. Each warp has one panel and is the only one to add to its sums.
template <WeightFormat kFormat, int kRows, int kPanels>
class OutlierGemm {
 public:
  static constexpr OutlierSmem kLayout = outlier_smem(kRows);
  static constexpr int kBlocks = OutlierSmem::kBlocks, kTogether = OutlierSmem::kTogether;
  static constexpr int kWords = kRows / 32;
  using Sums = GemmSums<kPanels>;

  VEERY_GPU OutlierGemm(const Activations& act, int first, int rows, uint8_t* shared)
      : layout_(activation_group_layout(act.kind, act.cols)),
        act_(act.data + int64_t{first} * act.stride),
        stride_(act.stride),
        blocks_(act.cols / 32),
        rows_(rows),
        shared_(shared) {}

  /// Called by all threads of the block, which synchronise before and after the call. `panel`: the
  /// units of the warp's panel.
  VEERY_GPU void add(const uint8_t* panel, const Sums& sums) {
    choose_entries();
    if (!any_outlier()) return;
    for (int first = 0; first < blocks_; first += kBlocks) {
      set_bits_of(first);
      sync_block();
      const Lists lists = count_lists();
      if (lists.all == 0) sync_block();  // before the bits are cleared again
      for (int i = 0; i < lists.all; i += kTogether) {
        const int present = lists.all - i < kTogether ? lists.all - i : kTogether;
        for (int j = warp(); j < present; j += kColumnsInFlight * warps())
          gather(lists, first, i, j, present);
        sync_block();
        multiply(present, panel, sums);
        sync_block();  // before the columns are overwritten
      }
    }
  }

 private:
  static constexpr int kColumnsInFlight = 2;  // columns in flight per warp

  VEERY_GPU OutlierColumns* columns() const { return reinterpret_cast<OutlierColumns*>(shared_); }
  VEERY_GPU uint32_t* bits() const { return reinterpret_cast<uint32_t*>(shared_ + kLayout.bits); }
  VEERY_GPU int32_t& any_flag() const {
    return *reinterpret_cast<int32_t*>(shared_ + kLayout.any_flag);
  }

  // Rows

  static VEERY_GPU int lanes() { return threads() / kRows; }  // that share a row's list
  VEERY_GPU void choose_entries() {
    const int r = thread() / lanes();
    entry_ = 1 + thread() % lanes(), list_ = nullptr, last_ = 0;
    if (r >= kRows || r >= rows_) return;
    list_ = reinterpret_cast<const int32_t*>(group_of(r) + layout_.outliers) +
            r % 8 * layout_.outlier_list;
    last_ = list_[0];
    next_ = entry_ < layout_.outlier_list ? list_[entry_] : 0;
  }
  VEERY_GPU bool any_outlier() const {
    if (thread() == 0) any_flag() = 0;
    sync_block();
    if (last_ > 0) any_flag() = 1;
    sync_block();
    return any_flag() != 0;
  }
  VEERY_GPU void set_bits_of(int first) {
    for (int i = thread(); i < kBlocks * kWords; i += threads()) bits()[i] = 0;
    sync_block();
    const int r = thread() / lanes();
    while (entry_ <= last_ && next_ < first + kBlocks) {
      atomic_or(bits() + (next_ - first) * kWords + r / 32, 1U << r % 32);
      entry_ += lanes();
      if (entry_ <= last_) next_ = list_[entry_];
    }
  }
  /// The rows in which a block is an outlier form lists of up to 8 rows. Lane l counts the lists of
  /// blocks 4 l to 4 l + 3.
  struct Lists {
    int all, before;  ///< lists in all, and of the lanes before
    uint32_t own;     ///< one byte per block of the lane
  };
  static_assert(kBlocks == 4 * kWarp);
  VEERY_GPU Lists count_lists() const {
    uint32_t own = 0;
    int sum = 0;
    VEERY_UNROLL(4)
    for (int j = 0; j < 4; ++j) {
      int rows = 0;
      for (int w = 0; w < kWords; ++w) rows += bit_count(bits()[(lane() * 4 + j) * kWords + w]);
      own |= static_cast<uint32_t>((rows + 7) / 8) << 8 * j, sum += (rows + 7) / 8;
    }
    int before = sum;
    VEERY_UNROLL(5)
    for (int step = 1; step < kWarp; step *= 2) {
      const int other = shuffle(before, lane() >= step ? lane() - step : lane());
      if (lane() >= step) before += other;
    }
    return {shuffle(before, kWarp - 1), before - sum, own};
  }
  struct List {
    int block, number;  ///< index of the block, and of the list within the block
  };
  static VEERY_GPU List find_list(Lists lists, int i) {
    int own = i - lists.before, block = lane() * 4;
    VEERY_UNROLL(4)
    for (int j = 0; j < 3; ++j) {
      const int present = byte_of(lists.own, j);
      if (block == lane() * 4 + j && own >= present) own -= present, ++block;
    }
    // The last lane whose lists begin at or before i has list i.
    const int from = bit_count(ballot(lists.before <= i)) - 1;
    return {shuffle(block, from), shuffle(own, from)};
  }

  // Columns

  VEERY_GPU const uint8_t* group_of(int r) const { return act_ + r / 8 * stride_; }
  /// A warp gathers columns j, j + warps(), .. below `present`, kColumnsInFlight of them: lists i +
  /// j and so on.
  VEERY_GPU void gather(Lists lists, int first, int i, int j, int present) const {
    Column loaded[kColumnsInFlight];
    VEERY_UNROLL(2)
    for (int k = 0; k < kColumnsInFlight; ++k) {
      const int at = j + k * warps();
      if (at < present) loaded[k] = load_column(find_list(lists, i + at), first, columns()[at]);
    }
    VEERY_UNROLL(2)
    for (int k = 0; k < kColumnsInFlight; ++k) {
      const int at = j + k * warps();
      if (at >= present) continue;
      OutlierColumns& to = columns()[at];
      to.codes[lane()] = loaded[k].codes;
      if (lane() >= 8) continue;
      to.scale[lane()] = loaded[k].scale, to.sum[lane()] = loaded[k].sum;
    }
  }
  struct Column {
    Two<uint32_t> codes;
    float scale;
    int32_t sum;
  };
  /// Stores block and offsets immediately; returns the values that are stored once the loads have
  /// arrived.
  VEERY_GPU Column load_column(List list, int first, OutlierColumns& to) const {
    if (lane() < 8) to.sums_offset[lane()] = -1;
    sync_warp();
    int before = -8 * list.number;
    VEERY_UNROLL(2)
    for (int w = 0; w < kWords; ++w) {
      const uint32_t rows = bits()[list.block * kWords + w];
      const int rank = before + bit_count(rows & ((1U << lane()) - 1));
      if ((rows >> lane() & 1U) != 0 && rank >= 0 && rank < 8)
        to.sums_offset[rank] = (32 * w + lane()) * Sums::kStride;
      before += bit_count(rows);
    }
    const int block = first + list.block;
    if (lane() == 0) to.block = block;
    sync_warp();
    Column found = {{0, 0}, 0, 0};
    if (const int sums_offset = to.sums_offset[lane() / 4]; sums_offset >= 0) {
      const int row = sums_offset / Sums::kStride;
      found.codes = load<Two<uint32_t>>(group_of(row) + layout_.residual + block * 256 +
                                        row % 8 * 32 + lane() % 4 * 8);
    }
    if (const int sums_offset = lane() < 8 ? to.sums_offset[lane()] : -1; sums_offset >= 0) {
      const int row = sums_offset / Sums::kStride;
      const int64_t at = (block * 8 + row % 8) * 4;
      found.scale = load<float>(group_of(row) + layout_.residual_scale + at);
      if constexpr (weight_format_info(kFormat).less != 0)
        found.sum = load<int32_t>(group_of(row) + layout_.residual_sum + at);
    }
    return found;
  }

  // Products

  struct Unit {
    FragmentWords<weight_format_info(kFormat).bits == 4 ? 4 : 8> fragment;
    PackedScales<weight_format_info(kFormat).wide> scales;
  };
  static VEERY_GPU Unit load_unit(const uint8_t* panel, int block) {
    const uint8_t* at = panel + int64_t{block} * unit_layout(kFormat).bytes;
    return {load_fragment_words<kFormat>(at), load_packed_scales<kFormat>(at)};
  }
  /// Weights are loaded some columns ahead.
  VEERY_GPU void multiply(int all, const uint8_t* panel, const Sums& sums) const {
    constexpr int kInFlight = 4;
    Unit units[kInFlight];
    VEERY_UNROLL(4)
    for (int j = 0; j < kInFlight; ++j)
      units[j] = load_unit(panel, columns()[j < all ? j : 0].block);
    for (int i = 0; i < all; i += kInFlight) {
      VEERY_UNROLL(4)
      for (int j = 0; j < kInFlight; ++j) {
        if (i + j >= all) continue;
        add_columns(columns()[i + j], units[j], sums);
        if (i + j + kInFlight < all)
          units[j] = load_unit(panel, columns()[i + j + kInFlight].block);
      }
    }
  }
  VEERY_GPU void add_columns(const OutlierColumns& of, const Unit& unit, const Sums& sums) const {
    constexpr int kHalves = has_half_scales(kFormat) ? 2 : 1;
    const int t = lane() % 4;
    const Two<uint32_t> codes = of.codes[lane()];
    const auto scale = load<Two<float>>(of.scale + 2 * t);
    const auto sums_offset = load<Two<int32_t>>(of.sums_offset + 2 * t);
    Two<int32_t> sum = {0, 0};
    if constexpr (weight_format_info(kFormat).less != 0) sum = load<Two<int32_t>>(of.sum + 2 * t);
    uint32_t fragment[4];
    unpack_fragment<kFormat>(unit.fragment, fragment);
    int32_t c[kHalves][4];
    Two<float> d[kHalves];
    VEERY_UNROLL(2)
    for (int h = 0; h < kHalves; ++h) {
      multiply_block<kFormat>(c[h], fragment, codes, sum, h);
      d[h] = unpack_scales<kFormat>(unit.scales, h);
    }
    sync_warp();  // another lane may have had the same sums in the previous column
    VEERY_UNROLL(2)
    for (int i = 0; i < 2; ++i) {
      const float own = i == 0 ? scale.x : scale.y;
      if (!(own > 0)) continue;
      Two<float>& to = sums.pair(i == 0 ? sums_offset.x : sums_offset.y, warp());
      Two<float> y = to;
      VEERY_UNROLL(2)
      for (int h = 0; h < kHalves; ++h) {
        y.x = fma(d[h].x * own, from_magic_bits(c[h][i]), y.x);
        y.y = fma(d[h].y * own, from_magic_bits(c[h][i + 2]), y.y);
      }
      to = y;
    }
  }

  ActivationGroupLayout layout_;
  const uint8_t* act_;
  int64_t stride_;
  int blocks_, rows_;
  uint8_t* shared_;
  // The thread processes every lanes()-th entry of the row's list; `next_` is the value of entry_.
  const int32_t* list_;
  int entry_, last_, next_ = 0;
};

}  // namespace veery::gpu
