// linear_row.h: products of one row of x, where the weights' way to the processors is what takes
// the time.
#pragma once
#include "kernels/gpu/kernels/linear/weight_ring.h"
#include "kernels/gpu/kernels/linear/gemv_quantize_x.h"
#include "kernels/gpu/kernels/linear/gemv_nvfp4.h"
#include "kernels/gpu/kernels/linear/tickets.h"

namespace veery::gpu {

/// What an item adds to the chains of a panel: sum = fma(factor, value, sum), unit after unit. Lane
/// 4 g + t has row g + 8 (t % 2); those with t >= 2 its minima, where there are such, or the same
/// as those without.
template <Format kFormat, int kTerms>
struct RowSteps {
  static constexpr FormatInfo kInfo = format_info(kFormat);
  static constexpr UnitPlaces kPlaces = unit_places(kFormat);
  static constexpr int kUnits = row_units(kFormat);
  static constexpr int kHalves = 32 / kInfo.sub;
  static_assert(kUnits >= 1 && kUnits * kInfo.block <= kItemColumns);

  float factor[kUnits][kTerms], value[kUnits][kTerms];

  static VEERY_GPU int row() { return lane() / 4 + lane() % 2 * 8; }
  static VEERY_GPU bool low() { return kInfo.minima && lane() % 4 >= 2; }
  /// d of the lane's row, or what its minimum is multiplied with.
  static VEERY_GPU float own_scale(const uint8_t* unit) {
    const int at = lane() / 4 * 2 + lane() % 2;
    const uint8_t* from = unit + (low() ? kPlaces.m : kPlaces.d);
    if constexpr (kInfo.wide) return load<float>(from + 4 * at);
    return half_to_float(load<uint16_t>(from + 2 * at));
  }

  /// Units from `unit` on of x, which lies in the block's memory. Of those that are not there
  /// something is found that is not looked at: what may be too large is unsigned, so that it wraps.
  VEERY_GPU void find(const FormRow& x, const uint8_t* units, int unit, int) {
    if constexpr (kInfo.block == 32)
      find_blocks(x, units, unit);
    else
      find_super_blocks(x, units, unit);
  }
  VEERY_GPU void add(float (&sum)[kTerms], int left) const {
    VEERY_UNROLL(16)
    for (int j = 0; j < kUnits; ++j) VEERY_UNROLL(2)
    for (int term = 0; term < kTerms; ++term)
      if (j < left) sum[term] = fma(factor[j][term], value[j][term], sum[term]);
  }

 private:
  static VEERY_GPU const uint8_t* term_of(const FormRow& x, int term) {
    return x.at + term * x.places.bytes;
  }
  // Four numbers of blocks of 32, from a multiple of four on.
  template <typename T>
  struct FourOf {
    T v[4];
    VEERY_GPU FourOf(const uint8_t* at, int block) {
      const auto four = load<Four<T>>(at + 4 * block);
      v[0] = four.x, v[1] = four.y, v[2] = four.z, v[3] = four.w;
    }
  };

  // All columns of b are the block's codes, or every second one those of the second term.
  VEERY_GPU void find_blocks(const FormRow& x, const uint8_t* units, int unit) {
    const int t = lane() % 4;
    const uint8_t* codes =
        term_of(x, kTerms == 2 ? lane() / 4 % 2 : 0) + x.places.codes + unit * 32 + 8 * t;
    VEERY_UNROLL(4)
    for (int first = 0; first < kUnits; first += 4) {
      int32_t c[4][4];
      VEERY_UNROLL(4)
      for (int j = 0; j < 4; ++j) {
        uint32_t tile[4];
        load_tile<kFormat>(units + (first + j) * kPlaces.bytes, tile);
        const auto b = load<Two<uint32_t>>(codes + (first + j) * 32);
        multiply_tile_from(c[j], tile, b.x, b.y, 0, 0);
      }
      float d[4];
      VEERY_UNROLL(4)
      for (int j = 0; j < 4; ++j) d[j] = own_scale(units + (first + j) * kPlaces.bytes);
      VEERY_UNROLL(2)
      for (int term = 0; term < kTerms; ++term) {
        const uint8_t* own = term_of(x, term);
        const FourOf<float> scale(own + x.places.scale, unit + first);
        const FourOf<float> moment(own + (kInfo.minima ? x.places.moment : x.places.scale),
                                   unit + first);
        const FourOf<uint32_t> sum(own + (kInfo.less != 0 ? x.places.sum : x.places.scale),
                                   unit + first);
        VEERY_UNROLL(4)
        for (int j = 0; j < 4; ++j) {
          auto all = static_cast<uint32_t>(t % 2 != 0 ? c[j][2 + term] : c[j][term]);
          if constexpr (kInfo.less != 0) all -= kInfo.less * sum.v[j];
          const float usual = static_cast<float>(static_cast<int32_t>(all));
          factor[first + j][term] = low() ? d[j] : d[j] * scale.v[j];
          value[first + j][term] = low() ? moment.v[j] : usual;
        }
      }
    }
  }

  // Of sub-block s a lane looks at column s of b, if that is among its columns 2 t and 2 t + 1, so
  // that it has sub-blocks 2 t and 2 t + 1 of rows g and g + 8.
  VEERY_GPU void find_super_blocks(const FormRow& x, const uint8_t* units, int unit) {
    const int g = lane() / 4, t = lane() % 4;
    Two<uint32_t> own[kUnits][kTerms];
    int32_t c[kUnits][kTerms][kHalves][4] = {};
    VEERY_UNROLL(2)
    for (int u = 0; u < kUnits; ++u) VEERY_UNROLL(2)
    for (int term = 0; term < kTerms; ++term)
      own[u][term] = load<Two<uint32_t>>(term_of(x, term) + x.places.codes + (unit + u) * 256 +
                                         g * 32 + 8 * t);
    VEERY_UNROLL(8)
    for (int s = 0; s < 8; ++s) VEERY_UNROLL(2)
    for (int u = 0; u < kUnits; ++u) {
      uint32_t tile[4];
      load_tile<kFormat>(units + u * kPlaces.bytes + s * kPlaces.tile, tile);
      VEERY_UNROLL(2)
      for (int term = 0; term < kTerms; ++term)
        multiply_sub_block(c[u][term], tile, own[u][term], s);
    }
    VEERY_UNROLL(2)
    for (int u = 0; u < kUnits; ++u) {
      const uint8_t* own_unit = units + u * kPlaces.bytes;
      const float d = own_scale(own_unit);
      VEERY_UNROLL(2)
      for (int term = 0; term < kTerms; ++term) {
        const FormRow of = {const_cast<uint8_t*>(term_of(x, term)), x.places};  // NOLINT
        factor[u][term] = d * of.floats(x.places.scale)[unit + u];
        value[u][term] = static_cast<float>(sub_blocks(of, own_unit, unit + u, c[u][term]));
      }
    }
  }
  // One term: products that wait for none before them, of which those that are looked at are
  // chosen. Two: b is 0 but for column s, so that all add up in the same registers, as there are no
  // more.
  static VEERY_GPU void multiply_sub_block(int32_t (&c)[kHalves][4], const uint32_t (&tile)[4],
                                           const Two<uint32_t>& own, int s) {
    if constexpr (kTerms == 2) {
      const bool is = lane() / 4 == s;
      multiply<false>(c, tile, {is ? own.x : 0U, is ? own.y : 0U});
    } else {
      int32_t all[kHalves][4];
      multiply<true>(all, tile, own);
      const bool is = s < 2 || lane() % 4 == s / 2;
      VEERY_UNROLL(2)
      for (int h = 0; h < kHalves; ++h) VEERY_UNROLL(2)
      for (int i = s % 2; i < 4; i += 2) c[h][i] = is ? all[h][i] : c[h][i];
    }
  }
  // A sub-block, its halves apart if they have scales of their own.
  template <bool kFresh>
  static VEERY_GPU void multiply(int32_t (&c)[kHalves][4], const uint32_t (&tile)[4],
                                 const Two<uint32_t>& b) {
    if constexpr (kHalves == 1 && kFresh) {
      multiply_tile_from(c[0], tile, b.x, b.y, 0, 0);
    } else if constexpr (kHalves == 1) {
      multiply_tile(c[0], tile, b.x, b.y);
    } else if constexpr (kFresh) {
      multiply_half_tile_into(c[0], tile[0], tile[1], b.x);
      multiply_half_tile_into(c[1], tile[2], tile[3], b.y);
    } else {
      multiply_half_tile(c[0], tile[0], tile[1], b.x);
      multiply_half_tile(c[1], tile[2], tile[3], b.y);
    }
  }
  // The bytes of sub-blocks 2 t and 2 t + 1 of a row: of each one, or two.
  static VEERY_GPU uint32_t two_sub_blocks(const uint8_t* bytes, int row) {
    const int t = lane() % 4, at = 2 * (lane() / 4) + row;
    if constexpr (kInfo.sub == 16) return load<uint32_t>(bytes + at * 16 + 4 * t);
    return load<uint16_t>(bytes + at * 8 + 2 * t);
  }
  // The whole numbers of a block of 256, added up over its sub-blocks.
  static VEERY_GPU int32_t sub_blocks(const FormRow& x, const uint8_t* unit, int u,
                                      const int32_t (&c)[kHalves][4]) {
    const int t = lane() % 4;
    const auto shifts = load<Two<int32_t>>(x.ints(x.places.shift) + u * 8 + 2 * t);
    Four<uint32_t> sums = {};
    if constexpr (kInfo.minima) sums = load<Four<uint32_t>>(x.ints(x.places.sum) + u * 16 + 4 * t);
    uint32_t sum[2] = {0, 0}, low[2] = {0, 0};
    VEERY_UNROLL(2)
    for (int row = 0; row < 2; ++row) {
      const uint32_t scales = two_sub_blocks(unit + kPlaces.scales, row);
      const uint32_t minima = kInfo.minima ? two_sub_blocks(unit + kPlaces.minima, row) : 0;
      VEERY_UNROLL(2)
      for (int e = 0; e < 2; ++e) {
        const int shift = (e == 0 ? shifts.x : shifts.y) & 31;
        const uint32_t of[2] = {e == 0 ? sums.x : sums.z, e == 0 ? sums.y : sums.w};
        int32_t part = 0;
        VEERY_UNROLL(2)
        for (int h = 0; h < kHalves; ++h) {
          part += signed_byte_of(scales, e * kHalves + h) * c[h][2 * row + e];
          if constexpr (kInfo.minima)
            low[row] += byte_of(minima, e * kHalves + h) * (kHalves == 2 ? of[h] : of[0] + of[1]);
        }
        sum[row] += static_cast<uint32_t>(part) << shift;
      }
    }
    // Each lane gets the one that is asked for: of its row, the sum or that of the minima.
    const bool odd = t % 2 != 0, high = t >= 2;
    if constexpr (kInfo.minima) {
      const uint32_t first = (high ? low[0] : sum[0]) + shuffle_xor(high ? sum[0] : low[0], 2);
      const uint32_t second = (high ? low[1] : sum[1]) + shuffle_xor(high ? sum[1] : low[1], 2);
      return static_cast<int32_t>((odd ? second : first) + shuffle_xor(odd ? first : second, 1));
    } else {
      const uint32_t half = (odd ? sum[1] : sum[0]) + shuffle_xor(odd ? sum[0] : sum[1], 1);
      return static_cast<int32_t>(half + shuffle_xor(half, 2));
    }
  }
};

template <int kTerms>
struct RowSteps<kBook2, kTerms> : RowHalves<kTerms> {};

/// Of bf16: an item is a piece. Lanes have outputs as there.
template <>
struct RowSteps<kBF16, 1> {
  static constexpr FormatInfo kInfo = format_info(kBF16);
  static constexpr UnitPlaces kPlaces = unit_places(kBF16);
  static constexpr int kUnits = row_units(kBF16);
  static_assert(kUnits == kPieceColumns / 16);

  float value;

  static VEERY_GPU int row() { return lane() / 4 + lane() % 2 * 8; }

  /// All columns of b are x.
  VEERY_GPU void find(const FormRow& x, const uint8_t* units, int unit, int left) {
    const uint8_t* own = x.at + unit * 32 + lane() % 4 * 8;
    float c[4] = {0, 0, 0, 0};
    const auto add_unit = [&](int j) {
      uint32_t tile[4];
      load_tile<kBF16>(units + j * kPlaces.bytes, tile);
      const auto b = load<Two<uint32_t>>(own + j * 32);
      multiply_bf16(c, tile, b.x, b.y);
    };
    if (left >= kUnits) {
      VEERY_UNROLL(16)
      for (int j = 0; j < kUnits; ++j) add_unit(j);
    } else {
      for (int j = 0; j < left; ++j) add_unit(j);
    }
    value = lane() % 2 != 0 ? c[2] : c[0];
  }
  VEERY_GPU void add(float (&sum)[1], int) const { sum[0] = sum[0] + value; }
};

/// A product in the memory of a block: x in its form, sums on their way from item to item of a
/// panel, and whose turn it is.
struct RowMemory {
  FormRow x;
  float* late;  ///< [slot][term][lane]
  Turns turns;
};

/// The panels of a block, which are `blocks_x()` apart, by its warps 0 to kWarps - 1.
template <Format kFormat, int kTerms, int kWarps>
class RowPanels {
 public:
  using Ring = ItemRing<kFormat, row_units(kFormat), kWarps>;
  using Items = RowItems<kWarps>;
  using Steps = RowSteps<kFormat, kTerms>;
  static constexpr FormatInfo kInfo = Steps::kInfo;
  static constexpr UnitPlaces kPlaces = Steps::kPlaces;
  static constexpr bool kResidual = kInfo.block == 32 && kTerms == 1;

  VEERY_GPU RowPanels(const LinearArguments& arguments, const RowMemory& memory)
      : a_(arguments), m_(memory), gated_(arguments.gated != 0) {}

  VEERY_GPU void run(Ring& ring) {
    const int units = ring.units();
    if (kResidual && kInfo.minima) m_.turns.wait_for_outliers();
    for (Items at = ring.first(); !at.ended(); at.next()) {
      const uint8_t* item = ring.wait();
      const int unit = at.chunk * Steps::kUnits, turn = at.turn();
      const bool ends = at.chunk + 1 == at.chunks;
      // Asked for now, as it is far away.
      const float residual = ends && a_.residual ? residual_at(at) : 0.0F;
      Steps steps;
      steps.find(m_.x, item, unit, units - unit);
      sync_warp();
      ring.next();
      float sum[kTerms];
      take_over(at, turn, sum);
      steps.add(sum, units - unit);
      if (rarely(ends))
        finish(at, sum, residual);
      else
        hand_on(at, turn, sum);
    }
    if (a_.best != nullptr && best_ != 0) keep_largest(a_.best, best_);
  }

 private:
  VEERY_GPU float* late_of(int slot) const { return m_.late + slot * kTerms * kWarp + lane(); }
  /// The sums of the items of the panel before this one.
  VEERY_GPU void take_over(const Items& at, int turn, float (&sum)[kTerms]) const {
    m_.turns.wait(at.slot, turn);
    const float* late = late_of(at.slot);
    VEERY_UNROLL(2)
    for (int term = 0; term < kTerms; ++term) sum[term] = at.chunk > 0 ? late[term * kWarp] : 0.0F;
    if (gated_ && at.chunk == 0 && at.slot % 2 == 0) m_.turns.wait_for_gates(at.slot, at.panel());
  }
  VEERY_GPU void hand_on(const Items& at, int turn, const float (&sum)[kTerms]) const {
    float* late = late_of(at.slot);
    VEERY_UNROLL(2)
    for (int term = 0; term < kTerms; ++term) late[term * kWarp] = sum[term];
    m_.turns.pass(at.slot, turn);
  }
  VEERY_GPU PanelOf panel_of(const Items& at) const {
    const int own = at.group + at.slot;
    return find_panel(a_, block_x() + (gated_ ? own / 2 : own) * blocks_x());
  }
  VEERY_GPU float residual_at(const Items& at) const {
    const PanelOf of = panel_of(at);
    const int n = of.panel * 16 + Steps::row();
    return n < a_.weight[of.weight].rows ? residual_of(a_, 0, of.weight, n) : 0.0F;
  }
  VEERY_GPU void finish(const Items& at, float (&sum)[kTerms], float residual) {
    const int own = at.group + at.slot, turn = at.turn();
    const PanelOf of = panel_of(at);
    if constexpr (kResidual)
      add_residual(a_.weight[gated_ ? own % 2 : of.weight], of.panel, sum[0]);
    float y[kTerms];
    VEERY_UNROLL(2)
    for (int term = 0; term < kTerms; ++term) {
      y[term] = sum[term];
      if constexpr (kInfo.minima) {
        const float low = shuffle_xor(sum[term], 2);
        y[term] = kInfo.block == 32 ? y[term] + low : y[term] - low;
      }
    }
    const float product = kTerms == 2 ? y[0] + y[kTerms - 1] : y[0];
    float gate = product;
    if (gated_ && own % 2 == 0) *late_of(at.slot) = product;
    if (gated_ && own % 2 != 0) {
      m_.turns.wait(at.slot - 1, turn + 1);
      gate = *late_of(at.slot - 1);
      m_.turns.pass_gate(at.slot);
    }
    m_.turns.pass(at.slot, turn);
    if (gated_ && own % 2 == 0) return;
    const int n = of.panel * 16 + Steps::row();
    if (lane() % 4 >= 2 || n >= a_.weight[of.weight].rows) return;
    const uint64_t key = finish_output(a_, 0, of.weight, n, gate, product, residual);
    best_ = key > best_ ? key : best_;
  }
  /// What the codes of outliers leave over.
  VEERY_GPU void add_residual(const Weight& w, int panel, float& sum) const {
    m_.turns.wait_for_outliers();
    const uint8_t* units = w.data + panel * w.panel;
    if constexpr (has_halves(kFormat))
      Steps::add_residual(m_.x, units, sum);
    else
      add_residual_blocks(units, sum);
  }
  VEERY_GPU void add_residual_blocks(const uint8_t* units, float& sum) const {
    const int32_t* list = m_.x.ints(m_.x.places.outliers);
    const int count = *list++;
    for (int first = 0; first < count; first += 4) {
      int32_t block[4], c[4][4];
      float d[4];
      VEERY_UNROLL(4)
      for (int j = 0; j < 4; ++j) {
        block[j] = list[first + j < count ? first + j : count - 1];
        const uint8_t* unit = units + int64_t{block[j]} * kPlaces.bytes;
        uint32_t tile[4];
        load_tile<kFormat>(unit, tile);
        d[j] = Steps::own_scale(unit) * m_.x.floats(m_.x.places.residual_scale)[block[j]];
        const auto b = load<Two<uint32_t>>(m_.x.residual() + block[j] * 32 + lane() % 4 * 8);
        multiply_tile_from(c[j], tile, b.x, b.y, 0, 0);
      }
      VEERY_UNROLL(4)
      for (int j = 0; j < 4; ++j) {
        int32_t all = lane() % 2 != 0 ? c[j][2] : c[j][0];
        if constexpr (kInfo.less != 0)
          all -= kInfo.less * m_.x.ints(m_.x.places.residual_sum)[block[j]];
        if (first + j < count && !Steps::low()) sum = fma(d[j], static_cast<float>(all), sum);
      }
    }
  }

  const LinearArguments& a_;
  const RowMemory& m_;
  bool gated_;
  uint64_t best_ = 0;
};

/// A product of one row.
template <Format kFormat, int kTerms, int kWarps>
class RowProduct {
 public:
  static constexpr bool kResidual = format_info(kFormat).block == 32 && kTerms == 1;

  VEERY_GPU explicit RowProduct(const LinearArguments& arguments)
      : a_(arguments),
        plan_(row_plan(kFormat, kTerms, arguments.form.cols, arguments.norm.weight != nullptr,
                       arguments.room, kWarps)),
        ring_(arguments, {plan_.mbarriers, plan_.ring, plan_.item_bytes, plan_.stages}, warp()) {}

  VEERY_GPU void run() {
    begin();
    const FormPlaces places = form_places(form_kind(kFormat), a_.form.cols);
    const RowMemory memory = {{shared_memory(), places}, late(), turns()};
    const RowSource source = source_of(places);
    Row row = {};
    if (a_.form.data != nullptr) {
      wait_for_inputs_alone();
      const auto* from = reinterpret_cast<const Four<uint32_t>*>(a_.form.data);
      for (int i = thread(); i < kTerms * places.bytes / 16; i += threads())
        reinterpret_cast<Four<uint32_t>*>(shared_memory())[i] = from[i];
      if (warp() < kWarps) ring_.fill();
      sync_block();
    } else {
      row = RowMaker<form_kind(kFormat), kTerms, kWarps>(source).make(
          [] { wait_for_inputs_alone(); }, [&] { ring_.fill(); });
    }
    // The next may look at what those before this launch have written (StepArguments::early). Not
    // sooner, as its blocks ask for weights, behind which x of others of this launch would wait.
    allow_next();
    if (warp() < kWarps) {
      if (a_.run.count(a_.rows) == 0) return ring_.drain();
      RowPanels<kFormat, kTerms, kWarps>(a_, memory).run(ring_);
    } else if (kResidual && a_.run.count(a_.rows) != 0) {
      if (a_.form.data == nullptr) make_row_residual(source, row);
      memory.turns.pass_outliers();
    }
  }

 private:
  VEERY_GPU float* late() const { return reinterpret_cast<float*>(shared_memory() + plan_.late); }
  VEERY_GPU Turns turns() const { return Turns(shared_memory() + plan_.turns); }
  VEERY_GPU RowSource source_of(const FormPlaces& places) const {
    const auto floats = [](int at) { return reinterpret_cast<float*>(shared_memory() + at); };
    RowSource source = {a_.x, a_.norm, a_.form.cols, places};
    source.form = shared_memory();
    source.largest_of = floats(plan_.largest);
    source.inverse = floats(plan_.inverse);
    source.staged = floats(plan_.staged);
    return source;
  }
  VEERY_GPU void begin() {
    if (warp() < kWarps) ring_.begin();
    turns().make(ring_.slots(), ring_.turns(), warps());
  }

  const LinearArguments& a_;
  RowPlan plan_;
  ItemRing<kFormat, row_units(kFormat), kWarps> ring_;
};

template <Format kFormat, int kTerms>
VEERY_GPU void linear_row(const LinearArguments& a) {
  RowProduct<kFormat, kTerms, RowPlan::warps_of(kFormat)>(a).run();
}

}  // namespace veery::gpu
