// gemv.h: GEMV, the product of one token row, which is bound by reading the weights.
#pragma once
#include "kernels/gpu/dialect/kernel_key.h"
#include "kernels/gpu/params/linear_params.h"

namespace veery::gpu {

namespace key {

/// `residual`: for rows with residual quantisation.
constexpr KernelKey gemv(WeightFormat format, bool residual) {
  return of(Family::kGemv, format, RowClass::kOne, residual);
}

}  // namespace key
}  // namespace veery::gpu

#if defined(VEERY_CUDA_CODE)
#include "kernels/gpu/kernels/linear/gemv_nvfp4-inl.h"
#include "kernels/gpu/kernels/linear/gemv_quantize_x-inl.h"
#include "kernels/gpu/kernels/linear/tickets-inl.h"
#include "kernels/gpu/kernels/linear/weight_ring-inl.h"
#include "kernels/gpu/smem/gemv_smem.h"

namespace veery::gpu {

/// The contribution of a weight tile to the sums of its panel: sum = fma(factor, value, sum), unit
/// after unit. Lane 4 g + t has row g + 8 (t % 2). If the format has minima, the lanes with t >= 2
/// have the minima of the row; otherwise they repeat the other lanes.
template <WeightFormat kFormat, int kTerms>
struct GemvTile {
  static constexpr WeightFormatInfo kInfo = weight_format_info(kFormat);
  static constexpr UnitLayout kLayout = unit_layout(kFormat);
  static constexpr int kUnits = gemv_tile_units(kFormat);
  static constexpr int kHalves = 32 / kInfo.sub;
  static_assert(kUnits >= 1 && kUnits * kInfo.block <= kMaxTileColumns);

  float factor[kUnits][kTerms], value[kUnits][kTerms];

  static VEERY_GPU int row() { return lane() / 4 + lane() % 2 * 8; }
  static VEERY_GPU bool low() { return kInfo.minima && lane() % 4 >= 2; }
  /// Returns the scale of the lane's row, or the factor of its minimum.
  static VEERY_GPU float lane_scale(const uint8_t* unit) {
    const int at = lane() / 4 * 2 + lane() % 2;
    const uint8_t* from = unit + (low() ? kLayout.m : kLayout.d);
    if constexpr (kInfo.wide) return load<float>(from + 4 * at);
    return f16_to_float(load<uint16_t>(from + 2 * at));
  }

  /// Computes values and factors for the units from `unit` on; x is in shared memory. Units past
  /// the end read garbage that add() ignores, so the sums are unsigned, for which overflow is
  /// defined.
  VEERY_GPU void compute(const ActivationRow& x, const uint8_t* units, int unit, int) {
    if constexpr (kInfo.block == 32)
      compute_blocks(x, units, unit);
    else
      compute_super_blocks(x, units, unit);
  }
  VEERY_GPU void add(float (&sum)[kTerms], int left) const {
    VEERY_UNROLL(16)
    for (int j = 0; j < kUnits; ++j) VEERY_UNROLL(2)
    for (int term = 0; term < kTerms; ++term)
      if (j < left) sum[term] = fma(factor[j][term], value[j][term], sum[term]);
  }

 private:
  static VEERY_GPU const uint8_t* term_of(const ActivationRow& x, int term) {
    return x.at + term * x.layout.bytes;
  }
  // Four consecutive numbers of an array with one entry per block of 32. The first index is a
  // multiple of four.
  template <typename T>
  struct FourOf {
    T v[4];
    VEERY_GPU FourOf(const uint8_t* at, int block) {
      const auto four = load<Four<T>>(at + 4 * block);
      v[0] = four.x, v[1] = four.y, v[2] = four.z, v[3] = four.w;
    }
  };

  // All columns of B are the codes of the block. With residual quantisation every second column has
  // the codes of the residual.
  VEERY_GPU void compute_blocks(const ActivationRow& x, const uint8_t* units, int unit) {
    const int t = lane() % 4;
    const uint8_t* codes =
        term_of(x, kTerms == 2 ? lane() / 4 % 2 : 0) + x.layout.codes + unit * 32 + 8 * t;
    VEERY_UNROLL(4)
    for (int first = 0; first < kUnits; first += 4) {
      int32_t c[4][4];
      VEERY_UNROLL(4)
      for (int j = 0; j < 4; ++j) {
        uint32_t fragment[4];
        load_fragment<kFormat>(units + (first + j) * kLayout.bytes, fragment);
        const auto b = load<Two<uint32_t>>(codes + (first + j) * 32);
        mma_m16n8k32_s8_from(c[j], fragment, b.x, b.y, 0, 0);
      }
      float d[4];
      VEERY_UNROLL(4)
      for (int j = 0; j < 4; ++j) d[j] = lane_scale(units + (first + j) * kLayout.bytes);
      VEERY_UNROLL(2)
      for (int term = 0; term < kTerms; ++term) {
        const uint8_t* own = term_of(x, term);
        const FourOf<float> scale(own + x.layout.scale, unit + first);
        const FourOf<float> moment(own + (kInfo.minima ? x.layout.moment : x.layout.scale),
                                   unit + first);
        const FourOf<uint32_t> sum(own + (kInfo.less != 0 ? x.layout.sum : x.layout.scale),
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

  // For sub-block s a lane reads column s of the mma if that is one of its columns 2 t and 2 t + 1.
  // So it gets sub-blocks 2 t and 2 t + 1 of rows g and g + 8.
  VEERY_GPU void compute_super_blocks(const ActivationRow& x, const uint8_t* units, int unit) {
    const int g = lane() / 4, t = lane() % 4;
    Two<uint32_t> own[kUnits][kTerms];
    int32_t c[kUnits][kTerms][kHalves][4] = {};
    VEERY_UNROLL(2)
    for (int u = 0; u < kUnits; ++u) VEERY_UNROLL(2)
    for (int term = 0; term < kTerms; ++term)
      own[u][term] = load<Two<uint32_t>>(term_of(x, term) + x.layout.codes + (unit + u) * 256 +
                                         g * 32 + 8 * t);
    VEERY_UNROLL(8)
    for (int s = 0; s < 8; ++s) VEERY_UNROLL(2)
    for (int u = 0; u < kUnits; ++u) {
      uint32_t fragment[4];
      load_fragment<kFormat>(units + u * kLayout.bytes + s * kLayout.fragment, fragment);
      VEERY_UNROLL(2)
      for (int term = 0; term < kTerms; ++term)
        multiply_sub_block(c[u][term], fragment, own[u][term], s);
    }
    VEERY_UNROLL(2)
    for (int u = 0; u < kUnits; ++u) {
      const uint8_t* own_unit = units + u * kLayout.bytes;
      const float d = lane_scale(own_unit);
      VEERY_UNROLL(2)
      for (int term = 0; term < kTerms; ++term) {
        const ActivationRow of = {const_cast<uint8_t*>(term_of(x, term)), x.layout};  // NOLINT
        factor[u][term] = d * of.floats(x.layout.scale)[unit + u];
        value[u][term] = static_cast<float>(sub_blocks(of, own_unit, unit + u, c[u][term]));
      }
    }
  }
  // Without residual quantisation: independent mma, from whose results the needed columns are
  // selected. With it there are too few registers for that, so B is 0 except for column s, and all
  // mma add to the same registers.
  static VEERY_GPU void multiply_sub_block(int32_t (&c)[kHalves][4], const uint32_t (&fragment)[4],
                                           const Two<uint32_t>& own, int s) {
    if constexpr (kTerms == 2) {
      const bool selected = lane() / 4 == s;
      multiply<false>(c, fragment, {selected ? own.x : 0U, selected ? own.y : 0U});
    } else {
      int32_t all[kHalves][4];
      multiply<true>(all, fragment, own);
      const bool selected = s < 2 || lane() % 4 == s / 2;
      VEERY_UNROLL(2)
      for (int h = 0; h < kHalves; ++h) VEERY_UNROLL(2)
      for (int i = s % 2; i < 4; i += 2) c[h][i] = selected ? all[h][i] : c[h][i];
    }
  }
  // A sub-block; its halves are separate if they have their own scales.
  template <bool kFresh>
  static VEERY_GPU void multiply(int32_t (&c)[kHalves][4], const uint32_t (&fragment)[4],
                                 const Two<uint32_t>& b) {
    if constexpr (kHalves == 1 && kFresh) {
      mma_m16n8k32_s8_from(c[0], fragment, b.x, b.y, 0, 0);
    } else if constexpr (kHalves == 1) {
      mma_m16n8k32_s8(c[0], fragment, b.x, b.y);
    } else if constexpr (kFresh) {
      mma_m16n8k16_s8_zero(c[0], fragment[0], fragment[1], b.x);
      mma_m16n8k16_s8_zero(c[1], fragment[2], fragment[3], b.y);
    } else {
      mma_m16n8k16_s8(c[0], fragment[0], fragment[1], b.x);
      mma_m16n8k16_s8(c[1], fragment[2], fragment[3], b.y);
    }
  }
  // Returns the bytes of sub-blocks 2 t and 2 t + 1 of a row: one or two each.
  static VEERY_GPU uint32_t two_sub_blocks(const uint8_t* bytes, int row) {
    const int t = lane() % 4, at = 2 * (lane() / 4) + row;
    if constexpr (kInfo.sub == 16) return load<uint32_t>(bytes + at * 16 + 4 * t);
    return load<uint16_t>(bytes + at * 8 + 2 * t);
  }
  // Returns the integer sum of a block of 256 over its sub-blocks.
  static VEERY_GPU int32_t sub_blocks(const ActivationRow& x, const uint8_t* unit, int u,
                                      const int32_t (&c)[kHalves][4]) {
    const int t = lane() % 4;
    const auto shifts = load<Two<int32_t>>(x.ints(x.layout.shift) + u * 8 + 2 * t);
    Four<uint32_t> sums = {};
    if constexpr (kInfo.minima) sums = load<Four<uint32_t>>(x.ints(x.layout.sum) + u * 16 + 4 * t);
    uint32_t sum[2] = {0, 0}, low[2] = {0, 0};
    VEERY_UNROLL(2)
    for (int row = 0; row < 2; ++row) {
      const uint32_t scales = two_sub_blocks(unit + kLayout.scales, row);
      const uint32_t minima = kInfo.minima ? two_sub_blocks(unit + kLayout.minima, row) : 0;
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
    // Each lane gets the value of its row: the sum of products, or that of the minima.
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
struct GemvTile<kNVFP4, kTerms> : GemvTileNvfp4<kTerms> {};

/// bf16: a weight tile is one piece. Lanes have the same outputs.
template <>
struct GemvTile<kBF16, 1> {
  static constexpr WeightFormatInfo kInfo = weight_format_info(kBF16);
  static constexpr UnitLayout kLayout = unit_layout(kBF16);
  static constexpr int kUnits = gemv_tile_units(kBF16);
  static_assert(kUnits == kBf16PieceColumns / 16);

  float value;

  static VEERY_GPU int row() { return lane() / 4 + lane() % 2 * 8; }

  /// All columns of B are x.
  VEERY_GPU void compute(const ActivationRow& x, const uint8_t* units, int unit, int left) {
    const uint8_t* own = x.at + unit * 32 + lane() % 4 * 8;
    float c[4] = {0, 0, 0, 0};
    const auto add_unit = [&](int j) {
      uint32_t fragment[4];
      load_fragment<kBF16>(units + j * kLayout.bytes, fragment);
      const auto b = load<Two<uint32_t>>(own + j * 32);
      mma_m16n8k16_bf16(c, fragment, b.x, b.y);
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

/// Shared memory of a product: the quantised row, the sums that are handed from tile to tile of a
/// panel, and their tickets.
struct GemvState {
  ActivationRow x;
  float* partial_sums;  ///< [slot][term][lane]
  Tickets tickets;
};

/// Warps 0 to kWarps - 1 multiply the panels of the block, which are blocks_x() apart.
template <WeightFormat kFormat, int kTerms, int kWarps>
class GemvPanels {
 public:
  using Ring = WeightRing<kFormat, gemv_tile_units(kFormat), kWarps>;
  using Iterator = TileIterator<kWarps>;
  using Steps = GemvTile<kFormat, kTerms>;
  static constexpr WeightFormatInfo kInfo = Steps::kInfo;
  static constexpr UnitLayout kLayout = Steps::kLayout;
  static constexpr bool kResidual = kInfo.block == 32 && kTerms == 1;

  VEERY_GPU GemvPanels(const GemmParams& params, const GemvState& memory)
      : a_(params), m_(memory), gated_(params.gated != 0) {}

  VEERY_GPU void run(Ring& ring) {
    const int units = ring.units();
    if (kResidual && kInfo.minima) m_.tickets.wait_for_outliers();
    bool will_meet = must_meet(ring.slots(), ring.tickets());
    for (Iterator at = ring.first(); !at.ended(); at.next()) {
      if (unlikely(will_meet && at.is_narrow())) m_.tickets.meet(), will_meet = false;
      const uint8_t* tile = ring.wait();
      const int unit = at.chunk * Steps::kUnits, ticket = at.ticket();
      const bool ends = at.chunk + 1 == at.chunks;
      // Loaded early, as it is in device memory.
      const float residual = ends && a_.residual ? residual_at(at) : 0.0F;
      Steps steps;
      steps.compute(m_.x, tile, unit, units - unit);
      sync_warp();
      ring.next();
      float sum[kTerms];
      acquire_sums(at, ticket, sum);
      steps.add(sum, units - unit);
      if (unlikely(ends))
        finish(at, sum, residual);
      else
        release_sums(at, ticket, sum);
    }
    if (will_meet) m_.tickets.leave();
    if (a_.argmax_keys != nullptr && best_ != 0) atomic_max(a_.argmax_keys, best_);
  }

 private:
  VEERY_GPU float* partial_sums_of(int slot) const {
    return m_.partial_sums + slot * kTerms * kWarp + lane();
  }
  /// Waits for the sums of the previous tile of the panel.
  VEERY_GPU void acquire_sums(const Iterator& at, int ticket, float (&sum)[kTerms]) const {
    m_.tickets.wait(at.slot, ticket);
    const float* partial_sums = partial_sums_of(at.slot);
    VEERY_UNROLL(2)
    for (int term = 0; term < kTerms; ++term)
      sum[term] = at.chunk > 0 ? partial_sums[term * kWarp] : 0.0F;
    if (gated_ && at.chunk == 0 && at.slot % 2 == 0)
      m_.tickets.wait_for_gate_release(at.slot, at.panel());
  }
  VEERY_GPU void release_sums(const Iterator& at, int ticket, const float (&sum)[kTerms]) const {
    float* partial_sums = partial_sums_of(at.slot);
    VEERY_UNROLL(2)
    for (int term = 0; term < kTerms; ++term) partial_sums[term * kWarp] = sum[term];
    m_.tickets.pass_on(at.slot, ticket);
  }
  VEERY_GPU PanelIndex panel_of(const Iterator& at) const {
    const int own = at.group + at.slot;
    return find_panel(a_, block_x() + (gated_ ? own / 2 : own) * blocks_x());
  }
  VEERY_GPU float residual_at(const Iterator& at) const {
    const PanelIndex of = panel_of(at);
    const int n = of.panel * 16 + Steps::row();
    return n < a_.weight[of.weight].rows ? residual_of(a_, 0, of.weight, n) : 0.0F;
  }
  VEERY_GPU void finish(const Iterator& at, float (&sum)[kTerms], float residual) {
    const int own = at.group + at.slot;
    const PanelIndex of = panel_of(at);
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
    if (gated_ && own % 2 == 0) {
      *partial_sums_of(at.slot) = product;
      m_.tickets.publish_gate(at.slot);
    }
    if (gated_ && own % 2 != 0) {
      m_.tickets.wait_for_gate(at.slot, at.panel());
      gate = *partial_sums_of(at.slot - 1);
      m_.tickets.release_gate(at.slot);
    }
    m_.tickets.pass_on(at.slot, at.ticket());
    if (gated_ && own % 2 == 0) return;
    const int n = of.panel * 16 + Steps::row();
    if (lane() % 4 >= 2 || n >= a_.weight[of.weight].rows) return;
    const uint64_t key = finish_output(a_, 0, of.weight, n, gate, product, residual);
    best_ = key > best_ ? key : best_;
  }
  /// Adds the residuals of outlier blocks.
  VEERY_GPU void add_residual(const Weight& w, int panel, float& sum) const {
    m_.tickets.wait_for_outliers();
    const uint8_t* units = w.data + panel * w.panel;
    if constexpr (has_half_scales(kFormat))
      Steps::add_residual(m_.x, units, sum);
    else
      add_residual_blocks(units, sum);
  }
  VEERY_GPU void add_residual_blocks(const uint8_t* units, float& sum) const {
    const int32_t* list = m_.x.ints(m_.x.layout.outliers);
    const int count = *list++;
    for (int first = 0; first < count; first += 4) {
      int32_t block[4], c[4][4];
      float d[4];
      VEERY_UNROLL(4)
      for (int j = 0; j < 4; ++j) {
        block[j] = list[first + j < count ? first + j : count - 1];
        const uint8_t* unit = units + int64_t{block[j]} * kLayout.bytes;
        uint32_t fragment[4];
        load_fragment<kFormat>(unit, fragment);
        d[j] = Steps::lane_scale(unit) * m_.x.floats(m_.x.layout.residual_scale)[block[j]];
        const auto b = load<Two<uint32_t>>(m_.x.residual() + block[j] * 32 + lane() % 4 * 8);
        mma_m16n8k32_s8_from(c[j], fragment, b.x, b.y, 0, 0);
      }
      VEERY_UNROLL(4)
      for (int j = 0; j < 4; ++j) {
        int32_t all = lane() % 2 != 0 ? c[j][2] : c[j][0];
        if constexpr (kInfo.less != 0)
          all -= kInfo.less * m_.x.ints(m_.x.layout.residual_sum)[block[j]];
        if (first + j < count && !Steps::low()) sum = fma(d[j], static_cast<float>(all), sum);
      }
    }
  }

  const GemmParams& a_;
  const GemvState& m_;
  bool gated_;
  uint64_t best_ = 0;
};

/// GEMV: a matrix times one token row.
template <WeightFormat kFormat, int kTerms, int kWarps>
class Gemv {
 public:
  static constexpr bool kResidual = weight_format_info(kFormat).block == 32 && kTerms == 1;

  VEERY_GPU explicit Gemv(const GemmParams& params)
      : a_(params),
        plan_(gemv_smem(kFormat, kTerms, params.act.cols, params.norm.weight != nullptr,
                        params.max_smem, kWarps)),
        ring_(params, {plan_.mbarriers, plan_.ring, plan_.tile_bytes, plan_.stages}, warp()) {}

  VEERY_GPU void run() {
    begin();
    const ActivationLayout layout = activation_layout(activation_kind(kFormat), a_.act.cols);
    const GemvState memory = {{shared_memory(), layout}, partial_sums(), tickets()};
    const RowQuantizerInput source = source_of(layout);
    Row row = {};
    if (a_.act.data != nullptr) {
      wait_for_dependencies_only();
      const auto* from = reinterpret_cast<const Four<uint32_t>*>(a_.act.data);
      for (int i = thread(); i < kTerms * layout.bytes / 16; i += threads())
        reinterpret_cast<Four<uint32_t>*>(shared_memory())[i] = from[i];
      if (warp() < kWarps) ring_.fill();
      sync_block();
    } else {
      row = RowQuantizer<activation_kind(kFormat), kTerms, kWarps>(source).make(
          [] { wait_for_dependencies_only(); }, [&] { ring_.fill(); });
    }
    // The next launch may now read what the launches before this one have written
    // (AttendDecodeParams::prefetch_cache). Not earlier: its thread blocks issue weight copies, and
    // the activations that other blocks of this launch still load would queue up after them.
    launch_dependents();
    if (warp() < kWarps) {
      if (a_.run.count(a_.rows) == 0) return ring_.drain();
      GemvPanels<kFormat, kTerms, kWarps>(a_, memory).run(ring_);
    } else if (kResidual && a_.run.count(a_.rows) != 0) {
      if (a_.act.data == nullptr) quantize_outliers(source, row);
      memory.tickets.publish_outliers();
    }
  }

 private:
  VEERY_GPU float* partial_sums() const {
    return reinterpret_cast<float*>(shared_memory() + plan_.partial_sums);
  }
  VEERY_GPU Tickets tickets() const { return Tickets(shared_memory() + plan_.tickets); }
  VEERY_GPU RowQuantizerInput source_of(const ActivationLayout& layout) const {
    const auto floats = [](int at) { return reinterpret_cast<float*>(shared_memory() + at); };
    RowQuantizerInput source = {a_.x, a_.norm, a_.act.cols, layout};
    source.act = shared_memory();
    source.max_abs_of = floats(plan_.max_abs);
    source.inverse = floats(plan_.inverse);
    source.staged = floats(plan_.staged);
    return source;
  }
  VEERY_GPU void begin() {
    if (warp() < kWarps)
      ring_.begin();
    else if (lane() == 0)
      tickets().init_meeting(kWarps);
    tickets().init(ring_.slots(), ring_.tickets(), warps());
  }

  const GemmParams& a_;
  GemvSmem plan_;
  WeightRing<kFormat, gemv_tile_units(kFormat), kWarps> ring_;
};

template <WeightFormat kFormat, int kTerms>
VEERY_GPU void gemv(const GemmParams& a) {
  Gemv<kFormat, kTerms, GemvSmem::warps_for(kFormat)>(a).run();
}

}  // namespace veery::gpu
#endif  // VEERY_CUDA_CODE

#define VEERY_GPU_GEMV(X, set, name, format)                                                     \
  X(set, gemv_##name, GemmParams, (veery::gpu::GemvSmem::kThreads), 1, key::gemv(format, false), \
    (gemv<format, 1>))                                                                           \
  X(set, gemv_residual_##name, GemmParams, (veery::gpu::GemvSmem::kThreads), 1,                  \
    key::gemv(format, true), (gemv<format, 2>))
#define VEERY_GPU_GEMV_KERNELS(X)                                          \
  VEERY_GPU_EACH_QUANTIZED(VEERY_GPU_GEMV, X, kCuda)                       \
  X(kCuda, gemv_bf16, GemmParams, (veery::gpu::GemvSmem::kBf16Threads), 1, \
    key::gemv(kBF16, false), (gemv<kBF16, 1>))
