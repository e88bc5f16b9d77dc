// tile_outliers.h: what the codes of outlier blocks leave over (form.h), for tiles of many rows.
// The rows in which a block of 32 columns is an outlier are few, so they are brought together as
// the columns of one product.
#pragma once
#include "kernels/gpu/kernels/linear/gemm_epilogue.h"
#include "kernels/gpu/kernels/linear/mma_blocks.h"
#include "kernels/gpu/kernels/linear/x_groups.h"
#include "kernels/gpu/smem/tickets_smem.h"

namespace veery::gpu {

/// What the codes of a block leave over in up to 8 rows in which it is an outlier: as
/// load_fragment() wants codes, then what the rows have each. `place`: of their sums (GemmSums).
struct alignas(16) OutlierColumns {
  Two<uint32_t> codes[kWarp];
  float scale[8];  ///< 0 where there is no row
  int32_t sum[8], sums_offset[8];
  int32_t block, unused[7];
};
static_assert(sizeof(OutlierColumns) == OutlierSmem::kColumnBytes);

/// Of the kRows rows of x that begin with group `first` and are `rows`, at most. Each warp has a
/// panel, whose sums nobody else adds to meanwhile.
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

  /// By all threads of the block, which have met since sums were written and meet before they are
  /// looked at. `panel`: the units of the warp's panel.
  VEERY_GPU void add(const uint8_t* panel, const Sums& sums) {
    choose_entries();
    if (!are_there()) return;
    for (int first = 0; first < blocks_; first += kBlocks) {
      set_bits_of(first);
      sync_block();
      const Lists lists = count_lists();
      if (lists.all == 0) sync_block();  // nobody counts bits any more
      for (int i = 0; i < lists.all; i += kTogether) {
        const int present = lists.all - i < kTogether ? lists.all - i : kTogether;
        for (int j = warp(); j < present; j += kMost * warps()) gather(lists, first, i, j, present);
        sync_block();
        multiply(present, panel, sums);
        sync_block();  // nobody looks at the columns any more
      }
    }
  }

 private:
  static constexpr int kMost = 2;  // columns on their way to a warp

  VEERY_GPU OutlierColumns* columns() const { return reinterpret_cast<OutlierColumns*>(shared_); }
  VEERY_GPU uint32_t* bits() const { return reinterpret_cast<uint32_t*>(shared_ + kLayout.bits); }
  VEERY_GPU int32_t& any() const { return *reinterpret_cast<int32_t*>(shared_ + kLayout.any); }

  // Rows

  static VEERY_GPU int lanes() { return threads() / kRows; }  // that have a row's list together
  VEERY_GPU void choose_entries() {
    const int r = thread() / lanes();
    entry_ = 1 + thread() % lanes(), list_ = nullptr, last_ = 0;
    if (r >= kRows || r >= rows_) return;
    list_ = reinterpret_cast<const int32_t*>(group_of(r) + layout_.outliers) +
            r % 8 * layout_.outlier_list;
    last_ = list_[0];
    next_ = entry_ < layout_.outlier_list ? list_[entry_] : 0;
  }
  VEERY_GPU bool are_there() const {
    if (thread() == 0) any() = 0;
    sync_block();
    if (last_ > 0) any() = 1;
    sync_block();
    return any() != 0;
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
  /// Each 8 rows of a block are a list. Lane l has the 4 blocks that begin with 4 l.
  struct Lists {
    int all, before;  ///< lists; those of the lanes before
    uint32_t own;     ///< bytes: those of the lane's blocks
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
    int block, number;  ///< of those that are looked at, of the block's lists
  };
  static VEERY_GPU List find_list(Lists lists, int i) {
    int own = i - lists.before, block = lane() * 4;
    VEERY_UNROLL(4)
    for (int j = 0; j < 3; ++j) {
      const int present = byte_of(lists.own, j);
      if (block == lane() * 4 + j && own >= present) own -= present, ++block;
    }
    // The last lane whose lists begin no later has it.
    const int from = bit_count(ballot(lists.before <= i)) - 1;
    return {shuffle(block, from), shuffle(own, from)};
  }

  // Columns

  VEERY_GPU const uint8_t* group_of(int r) const { return act_ + r / 8 * stride_; }
  /// By a warp: of columns j, j + warps(), .. below `here` lists i + j and so on; kMost of them.
  VEERY_GPU void gather(Lists lists, int first, int i, int j, int present) const {
    Column loaded[kMost];
    VEERY_UNROLL(2)
    for (int k = 0; k < kMost; ++k) {
      const int at = j + k * warps();
      if (at < present) loaded[k] = copy_k_tile(find_list(lists, i + at), first, columns()[at]);
    }
    VEERY_UNROLL(2)
    for (int k = 0; k < kMost; ++k) {
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
  /// Block and places are there at once.
  VEERY_GPU Column copy_k_tile(List list, int first, OutlierColumns& to) const {
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
  /// Weights are asked for some columns ahead.
  VEERY_GPU void multiply(int all, const uint8_t* panel, const Sums& sums) const {
    constexpr int kAhead = 4;
    Unit units[kAhead];
    VEERY_UNROLL(4)
    for (int j = 0; j < kAhead; ++j) units[j] = load_unit(panel, columns()[j < all ? j : 0].block);
    for (int i = 0; i < all; i += kAhead) {
      VEERY_UNROLL(4)
      for (int j = 0; j < kAhead; ++j) {
        if (i + j >= all) continue;
        add_columns(columns()[i + j], units[j], sums);
        if (i + j + kAhead < all) units[j] = load_unit(panel, columns()[i + j + kAhead].block);
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
    sync_warp();  // sums of the columns before may have been another lane's
    VEERY_UNROLL(2)
    for (int i = 0; i < 2; ++i) {
      const float own = i == 0 ? scale.x : scale.y;
      if (!(own > 0)) continue;
      Two<float>& to = sums.pair(i == 0 ? sums_offset.x : sums_offset.y, warp());
      Two<float> y = to;
      VEERY_UNROLL(2)
      for (int h = 0; h < kHalves; ++h) {
        y.x = fma(d[h].x * own, from_whole_bits(c[h][i]), y.x);
        y.y = fma(d[h].y * own, from_whole_bits(c[h][i + 2]), y.y);
      }
      to = y;
    }
  }

  ActivationGroupLayout layout_;
  const uint8_t* act_;
  int64_t stride_;
  int blocks_, rows_;
  uint8_t* shared_;
  // Of the row's list the thread has every lanes()-th entry, of which `next_` is entry_.
  const int32_t* list_;
  int entry_, last_, next_ = 0;
};

}  // namespace veery::gpu
