// linear_row.h: products of one row of x, where the weights' way to the processors is what takes
// the time.
#pragma once
#include "kernels/gpu/functions/linear.h"

namespace veery::gpu {

/// One step of a chain: sum = fma(factor, value, sum).
using Step = Two<float>;

/// Where the steps of a block begin: [16 rows][terms], and those of its minima.
struct StepsAt {
  Step *sum, *low;
};

/// One row of x (or the two of its terms) times 16 outputs: the steps of their chains, by a warp.
/// `arrive`: returns when the units are there; what is wanted of x is asked for before. Places:
/// FormPlaces, or a reference to them.
template <Format kFormat, int kTerms, typename Places = FormPlaces>
struct RowSteps {
  static constexpr FormatInfo kInfo = format_info(kFormat);
  static constexpr UnitPlaces kPlaces = unit_places(kFormat);

  const uint8_t* data;
  int64_t stride;  ///< of the terms
  Places places;

  VEERY_GPU RowAt x(int term) const { return {data + term * stride}; }
  /// Blocks whose codes leave something over.
  VEERY_GPU int outliers() const {
    return kInfo.block == 32 && kTerms == 1 ? x(0).ints(places.outliers)[0] : 0;
  }

  /// Blocks of 32, up to four.
  template <typename Arrive>
  VEERY_GPU void some_blocks(const uint8_t* units, int unit, int left, const Arrive& arrive,
                             const StepsAt& to) const {
    const int last = left - 1, own = lane() / 8;
    const Two<uint32_t> b = codes_of(places.codes, unit + (own < last ? own : last));
    four_blocks<false>(
        b, [&](int j) { return units + j * kPlaces.bytes; }, [&](int j) { return unit + j; }, left,
        arrive, to);
  }
  /// What outliers `first` to first + left - 1 left over.
  VEERY_GPU void outliers(const uint8_t* panel, int first, int left, const StepsAt& to) const {
    const int32_t* list = x(0).ints(places.outliers) + 1 + first;
    const int last = left - 1, own = lane() / 8;
    const Two<uint32_t> b = codes_of(places.rest, list[own < last ? own : last]);
    four_blocks<true>(
        b, [&](int j) { return panel + int64_t{list[j]} * kPlaces.bytes; },
        [&](int j) { return list[j]; }, left, [] {}, to);
  }

  // A block of 256: sub-block s has column s of b for itself, so a lane has sub-blocks 2 t and 2 t
  // + 1 of rows g and g + 8.
  template <typename Arrive>
  VEERY_GPU void super_block(const uint8_t* unit, int u, const Arrive& arrive,
                             const StepsAt& steps) const {
    constexpr int kHalves = 32 / kInfo.sub;
    const int g = lane() / 4, t = lane() % 4;
    // All that is wanted of x is on its way before the weights are waited for.
    Two<uint32_t> own[kTerms];
    PartsOfRow parts[kTerms];
    VEERY_UNROLL(2)
    for (int term = 0; term < kTerms; ++term) {
      own[term] = load<Two<uint32_t>>(x(term).at + places.codes + u * 256 + g * 32 + 8 * t);
      parts[term] = parts_of(x(term), u);
    }
    arrive();
    int32_t c[kTerms][kHalves][4] = {}, odd[kTerms][kHalves][4] = {};
    VEERY_UNROLL(8)
    for (int s = 0; s < 8; ++s) {
      uint32_t tile[4];
      load_tile<kFormat>(unit + s * kPlaces.tile, tile);
      VEERY_UNROLL(2)
      for (int term = 0; term < kTerms; ++term) {
        const uint32_t b0 = g == s ? own[term].x : 0U, b1 = g == s ? own[term].y : 0U;
        auto& to = s % 2 == 0 ? c[term] : odd[term];  // two chains, as each product takes long
        if constexpr (kHalves == 1) {
          multiply_tile(to[0], tile, b0, b1);
        } else {
          multiply_half_tile(to[0], tile[0], tile[1], b0);
          multiply_half_tile(to[1], tile[2], tile[3], b1);
        }
      }
    }
    VEERY_UNROLL(2)
    for (int term = 0; term < kTerms; ++term) {
      VEERY_UNROLL(2)
      for (int h = 0; h < kHalves; ++h) VEERY_UNROLL(4)
      for (int i = 0; i < 4; ++i) c[term][h][i] += odd[term][h][i];
      const int32_t sum = sub_blocks(unit, parts[term], c[term]);
      // Lane t has row g + 8 (t % 2): 0 and 1 the sum, 2 and 3 that of minima.
      const bool low = t >= 2;
      if (low && !kInfo.minima) continue;
      const float d = scale_at(unit, 2 * g + t % 2, low) * parts[term].scale;
      (low ? steps.low : steps.sum)[(g + 8 * (t % 2)) * kTerms + term] = {d,
                                                                          static_cast<float>(sum)};
    }
  }
  static VEERY_GPU float scale_at(const uint8_t* unit, int at, bool low) {
    if constexpr (kInfo.wide) return load<float>(unit + kPlaces.d + 4 * at);
    return half_to_float(load<uint16_t>(unit + (low ? kPlaces.m : kPlaces.d) + 2 * at));
  }
  // Of x, for sub-blocks 2 t and 2 t + 1.
  struct PartsOfRow {
    Two<int32_t> shift;
    Four<int32_t> sums;
    float scale;
  };
  VEERY_GPU PartsOfRow parts_of(const RowAt& own, int u) const {
    const int t = lane() % 4;
    PartsOfRow p{load<Two<int32_t>>(own.ints(places.shift) + u * 8 + 2 * t),
                 {0, 0, 0, 0},
                 own.floats(places.scale)[u]};
    if constexpr (kInfo.minima) p.sums = load<Four<int32_t>>(own.ints(places.sum) + u * 16 + 4 * t);
    return p;
  }
  // The whole numbers of a block of 256, added up over its sub-blocks.
  VEERY_GPU int32_t sub_blocks(const uint8_t* unit, const PartsOfRow& own,
                               const int32_t (&c)[32 / kInfo.sub][4]) const {
    constexpr int kHalves = 32 / kInfo.sub, kEach = 8 * kHalves;
    const int g = lane() / 4, t = lane() % 4;
    const auto* scales = reinterpret_cast<const int8_t*>(unit + kPlaces.scales);
    const uint8_t* lows = unit + kPlaces.minima;
    int32_t sum[2] = {0, 0}, low[2] = {0, 0};
    VEERY_UNROLL(2)
    for (int e = 0; e < 2; ++e) {
      const int s = 2 * t + e;
      const int shift = e == 0 ? own.shift.x : own.shift.y;
      const int32_t sums[2] = {e == 0 ? own.sums.x : own.sums.z, e == 0 ? own.sums.y : own.sums.w};
      VEERY_UNROLL(2)
      for (int row = 0; row < 2; ++row) VEERY_UNROLL(2)
      for (int h = 0; h < kHalves; ++h) {
        const int at = (2 * g + row) * kEach + s * kHalves + h;
        sum[row] += scales[at] * c[h][2 * row + e] * (1 << shift);
        if constexpr (kInfo.minima)
          low[row] += lows[at] * (kHalves == 2 ? sums[h] : sums[0] + sums[1]);
      }
    }
    // Each lane gets the one that it is asked for by super_block().
    const bool odd = t % 2 != 0, high = t >= 2;
    int32_t first = high ? low[0] : sum[0], second = high ? low[1] : sum[1];
    if constexpr (kInfo.minima) {
      first += shuffle_xor(high ? sum[0] : low[0], 2);
      second += shuffle_xor(high ? sum[1] : low[1], 2);
      return (odd ? second : first) + shuffle_xor(odd ? first : second, 1);
    } else {
      const int32_t half = (odd ? sum[1] : sum[0]) + shuffle_xor(odd ? sum[0] : sum[1], 1);
      return half + shuffle_xor(half, 2);
    }
  }

 private:
  // b of the lane's column, which is for one of four blocks and one term.
  VEERY_GPU Two<uint32_t> codes_of(int64_t place, int block) const {
    if (lane() / 4 % 2 >= kTerms) return {0, 0};
    return load<Two<uint32_t>>(x(lane() / 4 % 2).at + place + block * 32 + lane() % 4 * 8);
  }

  // Up to four blocks: block j has columns 2 j (and 2 j + 1, the second term) of b for itself, so
  // lane t of a row gets block t. kRest: what outliers left over.
  template <bool kRest, typename UnitAt, typename NumberOf, typename Arrive>
  VEERY_GPU void four_blocks(const Two<uint32_t>& own, const UnitAt& unit_at,
                             const NumberOf& number_of, int left, const Arrive& arrive,
                             const StepsAt& steps) const {
    const int g = lane() / 4, t = lane() % 4;
    // All that is wanted of x is on its way before the weights are waited for.
    const int b = number_of(t < left ? t : left - 1);
    float scales[kTerms], moments[kTerms];
    int32_t less[kTerms];
    VEERY_UNROLL(2)
    for (int term = 0; term < kTerms; ++term) {
      scales[term] = x(term).floats(kRest ? places.finer : places.scale)[b];
      less[term] =
          kInfo.less != 0 ? kInfo.less * x(term).ints(kRest ? places.rest_sum : places.sum)[b] : 0;
      moments[term] = kInfo.minima && !kRest ? x(term).floats(places.moment)[b] : 0.0F;
    }
    if constexpr (!kRest) arrive();
    int32_t c[4] = {0, 0, 0, 0};
    sync_warp();  // which tensor cores want together
    VEERY_UNROLL(4)
    for (int j = 0; j < 4; ++j) {
      if (j >= left) continue;
      uint32_t tile[4];
      load_tile<kFormat>(unit_at(j), tile);
      const bool is = g / 2 == j;
      multiply_tile(c, tile, is ? own.x : 0U, is ? own.y : 0U);
    }
    if (t >= left) return;
    const uint8_t* unit = unit_at(t);
    const Two<float> d = load_scales<kFormat>(unit);
    Step* to = steps.sum + t * 16 * kTerms;
    VEERY_UNROLL(2)
    for (int term = 0; term < kTerms; ++term) {
      const float scale = scales[term];
      to[g * kTerms + term] = {d.x * scale, static_cast<float>(c[term] - less[term])};
      to[(g + 8) * kTerms + term] = {d.y * scale, static_cast<float>(c[2 + term] - less[term])};
    }
    if constexpr (kInfo.minima && !kRest) {
      const Two<float> m = load_minima<kFormat>(unit);
      Step* minima = steps.low + t * 16 * kTerms;
      VEERY_UNROLL(2)
      for (int term = 0; term < kTerms; ++term) {
        minima[g * kTerms + term] = {m.x, moments[term]};
        minima[(g + 8) * kTerms + term] = {m.y, moments[term]};
      }
    }
  }
};

/// One row of x (or the two of its terms), 16 outputs a block of threads at a time. Each of 8 warps
/// has a ring of items on their way from the weights, over rounds and panels, and finds the steps
/// of the chains; the other warps go through the chains of the round before, a lane each. kParts: 2
/// with a gate.
template <Format kFormat, int kTerms, int kParts>
class RowProduct {
 public:
  static constexpr FormatInfo kInfo = format_info(kFormat);
  static constexpr UnitPlaces kPlaces = unit_places(kFormat);
  static constexpr RowPlan kPlan = row_plan(kFormat, kTerms, kParts);
  static_assert(kPlan.stages >= 2);

  VEERY_GPU explicit RowProduct(const LinearArguments& arguments)
      : a_(arguments),
        x_{arguments.form.data, arguments.form.stride,
           form_places(arguments.form.kind, arguments.form.cols)},
        units_(arguments.form.cols / kInfo.block),
        items_((units_ + kPlan.each - 1) / kPlan.each),
        panels_(panels_of(arguments)) {}

  VEERY_GPU void run() {
    // Weights do not depend on what was launched before.
    allow_next();
    if (finds()) begin();
    wait_for_inputs();
    if (a_.run.count(a_.rows) == 0) return wait_for_groups<0>();
    outliers_ = x_.outliers();
    if (finds())
      find_all();
    else
      add_all();
  }

 private:
  static VEERY_GPU bool finds() { return warp() < RowPlan::kWarps; }
  VEERY_GPU int rounds() const { return (items_ + kPlan.items - 1) / kPlan.items; }
  /// Rounds of blocks that are outliers, for what their codes leave over.
  VEERY_GPU int rest_rounds() const {
    constexpr int kUnits = kPlan.items * kPlan.each;
    return (outliers_ + kUnits - 1) / kUnits;
  }
  static VEERY_GPU int at_most(int a, int b) { return a < b ? a : b; }

  // The ring

  /// An item: number `index` of a round, whose parts take turns.
  struct Cursor {
    int panel, first, index;
  };
  VEERY_GPU void settle(Cursor& c) const {
    while (c.panel < panels_ && c.index >= at_most(items_ - c.first, kPlan.items) * kParts) {
      c.index = warp();
      c.first += kPlan.items;
      if (c.first >= items_) c.first = 0, c.panel += blocks_x();
    }
  }
  VEERY_GPU uint8_t* slot(int i) const {
    return shared_memory() + (warp() * kPlan.stages + i) * kPlan.item_bytes;
  }
  VEERY_GPU const uint8_t* panel_data(const PanelOf& of, int part) const {
    const Weight& w = a_.weight[kParts == 2 ? part : of.weight];
    return w.data + of.panel * w.panel;
  }
  VEERY_GPU void ask(int to) {
    if (next_.panel < panels_) {
      const int u = (next_.first + next_.index / kParts) * kPlan.each;
      const uint8_t* from = panel_data(find_panel(a_, next_.panel), next_.index % kParts) +
                            int64_t{u} * kPlaces.bytes;
      const int bytes = at_most(units_ - u, kPlan.each) * kPlaces.bytes;
      VEERY_UNROLL(9)
      for (int at = lane() * 16; at < kPlan.item_bytes; at += kWarp * 16)
        if (at < bytes) begin_copy(slot(to) + at, from + at);
      next_.index += RowPlan::kWarps;
      settle(next_);
    }
    end_group();
  }
  VEERY_GPU void begin() {
    next_ = {block_x(), 0, warp()};
    settle(next_);
    for (int i = 0; i < kPlan.stages; ++i) ask(i);
  }

  // Steps

  VEERY_GPU Step* steps(int buffer, bool low, int part) const {
    constexpr int kSets = kParts * (kInfo.minima ? 2 : 1);
    return reinterpret_cast<Step*>(shared_memory() + kPlan.steps) +
           (buffer * kSets + (low ? kParts : 0) + part) * kPlan.chain_steps;
  }
  VEERY_GPU void find_all() {
    int buffer = 0, used = 0;
    for (int at = block_x(); at < panels_; at += blocks_x()) {
      for (int first = 0; first < items_; first += kPlan.items) {
        const int count = at_most(items_ - first, kPlan.items) * kParts;
        for (int i = warp(); i < count; i += RowPlan::kWarps) {
          find_item(i % kParts, (first + i / kParts) * kPlan.each, i / kParts * kPlan.each, buffer,
                    used);
          used = used + 1 == kPlan.stages ? 0 : used + 1;
        }
        sync_block();
        buffer ^= 1;
      }
      if constexpr (kInfo.block == 32 && kTerms == 1) {
        const PanelOf of = find_panel(a_, at);
        constexpr int kUnits = kPlan.items * 4;
        for (int first = 0; first < outliers_; first += kUnits) {
          const int count = at_most(outliers_ - first, kUnits);
          for (int i = warp(); i / kParts * 4 < count; i += RowPlan::kWarps)
            x_.outliers(panel_data(of, i % kParts), first + i / kParts * 4,
                        at_most(count - i / kParts * 4, 4),
                        steps_at(buffer, i % kParts, i / kParts * 4));
          sync_block();
          buffer ^= 1;
        }
      }
    }
    sync_block();
  }
  VEERY_GPU StepsAt steps_at(int buffer, int part, int place) const {
    constexpr int kEach = 16 * kTerms;
    return {steps(buffer, false, part) + place * kEach, steps(buffer, true, part) + place * kEach};
  }
  VEERY_GPU void find_item(int part, int unit, int place, int buffer, int used) {
    const StepsAt to = steps_at(buffer, part, place);
    if constexpr (kInfo.block == 32)
      x_.some_blocks(slot(used), unit, at_most(units_ - unit, 4), arrive, to);
    else
      x_.super_block(slot(used), unit, arrive, to);
    sync_warp();
    ask(used);
  }
  /// Until the item that was asked for first is there for the whole warp.
  static VEERY_GPU void arrive() {
    wait_for_groups<kPlan.stages - 1>();
    sync_warp();
  }
  // Chains

  VEERY_GPU float* results(int panel) const {
    return reinterpret_cast<float*>(shared_memory() + kPlan.results) +
           panel % 2 * kPlan.chains * 16;
  }
  VEERY_GPU void add_all() {
    const int number = thread() - RowPlan::kWarps * kWarp;
    const int chain = number / 16, output = number % 16;  // chain: [low][part][term]
    const int term = chain % kTerms, part = chain / kTerms % kParts;
    const bool low = chain / (kTerms * kParts) == 1, used = chain < kPlan.chains;
    int buffer = 0, panel = 0, last = -1;
    for (int at = block_x(); at < panels_; at += blocks_x(), ++panel) {
      float sum = 0;
      const int usual = rounds(), all = usual + rest_rounds();
      for (int r = 0; r < all; ++r) {
        sync_block();
        if (r == 0 && last >= 0) finish(last, panel - 1);
        constexpr int kUnits = kPlan.items * kPlan.each;
        const int count = r < usual ? at_most(units_ - r * kUnits, kUnits)
                                    : at_most(outliers_ - (r - usual) * kUnits, kUnits);
        if (used && !(low && r >= usual))
          sum = fold(steps(buffer, low, part) + output * kTerms + term, count, sum);
        buffer ^= 1;
      }
      if (used) results(panel)[number] = sum;
      last = at;
    }
    sync_block();
    if (last >= 0) finish(last, panel - 1);
    if (a_.best != nullptr && best_ != 0) keep_largest(a_.best, best_);
  }
  static VEERY_GPU float fold(const Step* steps, int count, float sum) {
    VEERY_UNROLL(16)
    for (int i = 0; i < count; ++i) {
      const Step step = steps[i * 16 * kTerms];
      sum = fma(step.x, step.y, sum);
    }
    return sum;
  }
  // y of 16 outputs, by as many threads.
  VEERY_GPU void finish(int at, int panel) {
    const int output = thread() - RowPlan::kWarps * kWarp;
    const PanelOf of = find_panel(a_, at);
    const int n = of.panel * 16 + output;
    if (output >= 16 || n >= a_.weight[of.weight].rows) return;
    float y[kParts];
    VEERY_UNROLL(2)
    for (int part = 0; part < kParts; ++part) {
      float sum[kTerms];
      VEERY_UNROLL(2)
      for (int term = 0; term < kTerms; ++term) {
        const int chain = part * kTerms + term;
        sum[term] = results(panel)[chain * 16 + output];
        if constexpr (kInfo.minima) {
          const float m = results(panel)[(kParts * kTerms + chain) * 16 + output];
          sum[term] = kInfo.block == 32 ? sum[term] + m : sum[term] - m;
        }
      }
      y[part] = kTerms == 2 ? sum[0] + sum[kTerms - 1] : sum[0];
    }
    const uint64_t key =
        finish_output(a_, 0, of.weight, n, y[0], kParts == 2 ? y[kParts - 1] : 0.0F);
    best_ = key > best_ ? key : best_;
  }

  const LinearArguments& a_;
  RowSteps<kFormat, kTerms> x_;
  int units_, items_, panels_, outliers_ = 0;
  Cursor next_ = {0, 0, 0};
  uint64_t best_ = 0;
};

template <Format kFormat, int kTerms, int kParts>
VEERY_GPU void linear_row(const LinearArguments& a) {
  RowProduct<kFormat, kTerms, kParts>(a).run();
}

}  // namespace veery::gpu
