// gemm_skinny.h: GEMM of one or two groups of 8 rows, which is still bound by reading the weights.
// It streams weight tiles as gemv.h does and multiplies each of them with all rows. The bits are
// those of gemm_direct.h.
#pragma once
#include "kernels/gpu/dialect/kernel_key.h"
#include "kernels/gpu/params/linear_params.h"

namespace veery::gpu {

namespace key {

constexpr KernelKey gemm_skinny(WeightFormat format, bool two_groups) {
  return of(Family::kGemmSkinny, format, two_groups ? RowClass::kSixteen : RowClass::kEight, 0);
}

}  // namespace key
}  // namespace veery::gpu

#if defined(VEERY_CUDA_CODE)
#include "kernels/gpu/kernels/linear/mma_blocks-inl.h"
#include "kernels/gpu/kernels/linear/tickets-inl.h"
#include "kernels/gpu/kernels/linear/weight_ring-inl.h"
#include "kernels/gpu/kernels/linear/x_groups-inl.h"
#include "kernels/gpu/smem/gemm_skinny_smem.h"

namespace veery::gpu {

/// Sums of a panel in mma registers: [group][outputs g, g, g + 8, g + 8 of rows 2 t, 2 t + 1, ..];
/// `low`: sums of minima, if the format has them.
template <WeightFormat kFormat, int kGroups>
struct SkinnySums {
  static constexpr bool kMinima = weight_format_info(kFormat).minima;
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

/// The contribution of a weight tile to the sums of its panel. compute() computes the part that
/// does not depend on earlier sums.
template <WeightFormat kFormat, int kGroups>
class SkinnyTile {
 public:
  static constexpr WeightFormatInfo kInfo = weight_format_info(kFormat);
  static constexpr UnitLayout kLayout = unit_layout(kFormat);
  static constexpr ActivationGroupLayout kActLayout =
      activation_group_layout(activation_kind(kFormat), 256);
  static constexpr GemmMmaSmem kMmaTile = gemm_mma_smem(kFormat, true);
  static constexpr int kUnits = gemv_tile_units(kFormat);
  static constexpr int kGroupBytes = kMmaTile.group_bytes;
  using Sums = SkinnySums<kFormat, kGroups>;

  /// A weight tile, its chunk of x, and how many units and groups of them exist.
  struct Operands {
    const uint8_t *units, *act;
    int left, present;

    VEERY_GPU const uint8_t* unit(int j) const { return units + j * kLayout.bytes; }
    VEERY_GPU const uint8_t* k_tile(int j, int n) const {
      return act + (j / kMmaTile.units * kGroups + n) * kGroupBytes;
    }
  };

  VEERY_GPU void compute(const Operands& of) {
    VEERY_UNROLL(16)
    for (int j = 0; j < kUnits; ++j) {
      if (j >= of.left) continue;
      if constexpr (kFormat == kBF16)
        add_bf16(of, j);
      else if constexpr (kInfo.block == 32)
        compute_block(of, j);
      else
        compute_super_block(of, j);
    }
  }
  VEERY_GPU void add(const Operands& of, Sums& to) const {
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
  static constexpr int kHalves = has_half_scales(kFormat) ? 2 : 1;  // steps of a block of 32

  VEERY_GPU void add_bf16(const Operands& of, int j) {
    uint32_t fragment[4];
    load_fragment<kFormat>(of.unit(j), fragment);
    VEERY_UNROLL(4)
    for (int n = 0; n < kGroups; ++n) {
      if (n >= of.present) continue;
      const auto b = load_bf16_fragment(of.k_tile(j, n) + j % kMmaTile.units * 256);
      mma_m16n8k16_bf16(value_[0][n], fragment, b.x, b.y);
    }
  }
  VEERY_GPU void compute_block(const Operands& of, int j) {
    uint32_t fragment[4];
    load_fragment<kFormat>(of.unit(j), fragment);
    const int b = j % kMmaTile.units;
    VEERY_UNROLL(4)
    for (int n = 0; n < kGroups; ++n) {
      if (n >= of.present) continue;
      const uint8_t* act = of.k_tile(j, n);
      const auto codes = load<Two<uint32_t>>(act + b * 256 + lane() * 8);
      Two<int32_t> sum = {0, 0};
      if constexpr (kInfo.less != 0)
        sum = load<Two<int32_t>>(act + factor_offset(kActLayout.sum, b));
      VEERY_UNROLL(2)
      for (int h = 0; h < kHalves; ++h) {
        int32_t c[4];
        multiply_block<kFormat>(c, fragment, codes, sum, h);
        VEERY_UNROLL(4)
        for (int i = 0; i < 4; ++i) value_[j * kHalves + h][n][i] = from_magic_bits(c[i]);
      }
    }
  }
  VEERY_GPU void compute_super_block(const Operands& of, int j) {
    static_assert(kMmaTile.units == 1 || kBlocks || kFormat == kBF16);
    using Block = MmaSuperBlock<kFormat, 1, kGroups, 0, kGroupBytes, /*kSyncs=*/false>;
    int32_t all[1][kGroups][4] = {};
    Block::add_up(of.unit(j), of.k_tile(j, 0), of.present, all);
    VEERY_UNROLL(4)
    for (int n = 0; n < kGroups; ++n) VEERY_UNROLL(4)
    for (int i = 0; i < 4; ++i) value_[j][n][i] = static_cast<float>(all[0][n][i]);
    if constexpr (kInfo.minima) {
      typename Block::Minima minima;
      minima.load(of.unit(j));
      VEERY_UNROLL(4)
      for (int n = 0; n < kGroups; ++n)
        if (n < of.present) minima.add_up(of.k_tile(j, n), low_[j][n]);
    }
    const Two<float> d = load_scales<kFormat>(of.unit(j));
    Two<float> least = {0, 0};
    if constexpr (kInfo.minima) least = load_minima<kFormat>(of.unit(j));
    VEERY_UNROLL(4)
    for (int n = 0; n < kGroups; ++n) {
      if (n >= of.present) continue;
      const auto scale = load<Two<float>>(of.k_tile(j, n) + factor_offset(kActLayout.scale, 0));
      VEERY_UNROLL(4)
      for (int i = 0; i < 4; ++i) {
        const float own = i % 2 == 0 ? scale.x : scale.y;
        factor_[j][n][i] = (i < 2 ? d.x : d.y) * own;
        if constexpr (kInfo.minima) low_factor_[j][n][i] = (i < 2 ? least.x : least.y) * own;
      }
    }
  }

  static VEERY_GPU int factor_offset(int offset, int b) { return offset + b * 32 + lane() % 4 * 8; }
  VEERY_GPU void add_unit(const Operands& of, int j, Sums& to) const {
    if constexpr (kBlocks) return add_block(of, j, to);
    VEERY_UNROLL(4)
    for (int n = 0; n < kGroups; ++n) VEERY_UNROLL(4)
    for (int i = 0; i < 4; ++i) {
      if (n >= of.present) continue;
      to.sum[n][i] = fma(factor_[j][n][i], value_[j][n][i], to.sum[n][i]);
      if constexpr (kInfo.minima)
        to.low[n][i] = fma(low_factor_[j][n][i], low_[j][n][i], to.low[n][i]);
    }
  }
  VEERY_GPU void add_block(const Operands& of, int j, Sums& to) const {
    const int b = j % kMmaTile.units;
    Two<float> least = {0, 0};
    if constexpr (kInfo.minima) least = load_minima<kFormat>(of.unit(j));
    VEERY_UNROLL(2)
    for (int h = 0; h < kHalves; ++h) {
      const Two<float> d = load_scales<kFormat>(of.unit(j), h);
      VEERY_UNROLL(4)
      for (int n = 0; n < kGroups; ++n) {
        if (n >= of.present) continue;
        const uint8_t* act = of.k_tile(j, n);
        const auto scale = load<Two<float>>(act + factor_offset(kActLayout.scale, b));
        Two<float> moment = {0, 0};
        if constexpr (kInfo.minima)
          moment = load<Two<float>>(act + factor_offset(kActLayout.moment, b));
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
  float factor_[kSuper][kGroups][4] = {};  // blocks of 256
  float low_[kLows][kGroups][4] = {}, low_factor_[kLows][kGroups][4] = {};
};

template <WeightFormat kFormat, bool kTwoGroups>
class GemmSkinny {
 public:
  static constexpr int kGroups = kTwoGroups ? 2 : 1;
  static constexpr WeightFormatInfo kInfo = weight_format_info(kFormat);
  static constexpr ActivationGroupLayout kActLayout =
      activation_group_layout(activation_kind(kFormat), 256);
  static constexpr int kGroupBytes = gemm_mma_smem(kFormat, true).group_bytes;
  using Tile = SkinnyTile<kFormat, kGroups>;
  using Sums = typename Tile::Sums;
  using Ring = WeightRing<kFormat, Tile::kUnits, 0>;

  VEERY_GPU explicit GemmSkinny(const GemmParams& params)
      : a_(params),
        plan_(gemm_skinny_smem(kFormat, kTwoGroups, params.act.cols, params.max_smem)),
        tickets_(shared_memory() + plan_.tickets),
        ring_(params, {plan_.mbarriers, plan_.ring, plan_.tile_bytes, plan_.stages}, warp()) {}

  VEERY_GPU void run() {
    launch_dependents();
    begin();
    wait_for_dependencies();
    rows_ = static_cast<int>(a_.run.count(a_.rows)) * terms();
    present_ = (rows_ + 7) / 8;
    if (is_producer())
      produce_chunks();
    else
      present_ > 0 ? multiply() : ring_.drain();
  }

 private:
  /// The producer is the warp after the consumers.
  VEERY_GPU bool is_producer() const { return warp() == plan_.warps; }
  VEERY_GPU int terms() const { return a_.act.residual_rows != 0 ? 2 : 1; }
  VEERY_GPU bool has_outliers() const { return kInfo.block == 32 && terms() == 1; }
  /// Sums that are handed from tile to tile of a panel.
  VEERY_GPU float* partial_sums(int slot) const {
    return reinterpret_cast<float*>(shared_memory()) + slot * plan_.values * kWarp;
  }
  /// Returns the warp's largest order_key() of row r.
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
    return a_.act.data + int64_t{n} * a_.act.stride;
  }

  VEERY_GPU void begin() {
    if (is_producer()) {
      if (lane() < plan_.chunks) init_mbarrier(chunk_mbarrier(lane()));
    } else {
      ring_.begin();
      ring_.fill();
      if (lane() < 8 * kGroups) best(lane()) = 0;
    }
    tickets_.init(ring_.slots(), ring_.tickets(), plan_.warps);
    sync_block();
  }

  // The producer

  /// Copies the chunks once for every set of slots that is accumulated at the same time.
  VEERY_GPU void produce_chunks() {
    const int slots = ring_.slots(), chunks = ring_.chunks();
    const int all = present_ > 0 ? ring_.tickets() : 0;
    for (int i = 0; i < all; ++i) {
      if (i == plan_.chunks) find_outliers();
      if (const int before = i - plan_.chunks; before >= 0) {
        const int left = slots - before / chunks * GemmSkinnySmem::kSlots;
        for (int s = 0; s < GemmSkinnySmem::kSlots && s < left; ++s) tickets_.wait(s, before + 1);
        sync_warp();
      }
      copy_chunk(i % chunks, i % plan_.chunks);
    }
    if (all > 0 && all <= plan_.chunks) find_outliers();
  }
  VEERY_GPU void copy_chunk(int chunk, int stage) const {
    struct Piece {
      uint8_t* to;
      const uint8_t* from;
      int bytes;
    };
    constexpr int kEach = gemm_mma_smem(kFormat, true).units;
    const int k_tiles = (ring_.units() + kEach - 1) / kEach, first = chunk * plan_.k_tiles;
    const int left = k_tiles - first < plan_.k_tiles ? k_tiles - first : plan_.k_tiles;
    if constexpr (kFormat == kBF16) {  // a K tile of all groups is contiguous
      const ActivationGroup group = activation_group(a_.act, 0);
      copy_bulk_pieces(chunk_mbarrier(stage), left, [&](int s) {
        return Piece{chunk_at(stage) + s * kGroups * kGroupBytes,
                     group.at + int64_t{first + s} * kBf16GroupsTogether * kActLayout.k_tile,
                     present_ * kGroupBytes};
      });
    } else {
      copy_bulk_pieces(chunk_mbarrier(stage), left * present_, [&](int i) {
        const int s = i / present_, n = i % present_;
        return Piece{chunk_at(stage) + (s * kGroups + n) * kGroupBytes,
                     group_data(n) + int64_t{first + s} * kActLayout.k_tile, kGroupBytes};
      });
    }
  }
  /// Sets the bits of the blocks that are outliers of any row.
  VEERY_GPU void find_outliers() const {
    if (!has_outliers()) return;
    const ActivationGroupLayout layout =
        activation_group_layout(activation_kind(kFormat), a_.act.cols);
    for (int i = lane(); i < (ring_.units() + 31) / 32; i += kWarp) outliers()[i] = 0;
    sync_warp();
    if (lane() < 8 * present_) {
      const auto* list =
          reinterpret_cast<const int32_t*>(group_data(lane() / 8) + layout.outliers) +
          lane() % 8 * layout.outlier_list;
      constexpr int kInFlight = 8;
      const int count = *list++;
      for (int e = 0; e < count; e += kInFlight) {
        int32_t block[kInFlight];
        VEERY_UNROLL(8)
        for (int i = 0; i < kInFlight; ++i) block[i] = list[e + i < count ? e + i : e];
        VEERY_UNROLL(8)
        for (int i = 0; i < kInFlight; ++i)
          atomic_or(outliers() + block[i] / 32, 1U << block[i] % 32);
      }
    }
    sync_warp();
    tickets_.publish_outliers();
  }

  // The consumers

  VEERY_GPU void multiply() {
    for (TileIterator<0> at = ring_.first(); !at.ended(); at.next()) {
      const int ticket = at.ticket(), stage = ticket % plan_.chunks;
      const uint8_t* units = ring_.wait();
      wait_for_phase(chunk_mbarrier(stage), ticket / plan_.chunks);
      const typename Tile::Operands tile = {units, chunk_at(stage),
                                            ring_.units() - at.chunk * Tile::kUnits, present_};
      Tile steps;
      steps.compute(tile);
      Sums sums;
      acquire_sums(at, sums);
      steps.add(tile, sums);
      if (at.chunk + 1 == at.chunks) {
        finish(at, sums);
      } else {
        float* to = partial_sums(at.slot) + lane();
        sums.each([&](float& value, int i) { to[i * kWarp] = value; });
      }
      // The tile, its chunk and the sums are no longer needed.
      tickets_.pass_on(at.slot, ticket);
      sync_warp();
      ring_.next();
    }
    if (a_.argmax_keys == nullptr) return;
    sync_warp();
    if (lane() < 8 * kGroups && best(lane()) != 0)
      atomic_max(a_.argmax_keys + lane(), best(lane()));
  }
  /// Reads the sums of the previous tile of the panel, once that has its ticket.
  VEERY_GPU void acquire_sums(const TileIterator<0>& at, Sums& sums) const {
    tickets_.wait(at.slot, at.ticket());
    sums.clear();
    const float* from = partial_sums(at.slot) + lane();
    if (at.chunk > 0)
      sums.each([&](float& value, int i) { value = from[i * kWarp]; });
    else if (a_.gated != 0 && at.slot % 2 == 0)
      tickets_.wait_for_gate_release(at.slot, at.panel());
  }

  /// Offset of an output in partial_sums() after its sum is complete; free of bank conflicts.
  static VEERY_GPU int value_offset(int row, int output) {
    return row / 2 * 32 + ((row % 2 * 16 + output + row / 2 * 8) & 31);
  }
  VEERY_GPU void finish(const TileIterator<0>& at, Sums& sums) const {
    const int own = at.group + at.slot;
    const PanelIndex of = ring_.panel_of(own);
    if (has_outliers()) add_residual(a_.weight[of.weight], of.panel, sums);
    float* to = partial_sums(at.slot);
    sync_warp();  // all lanes have read the sums of the previous tile
    VEERY_UNROLL(4)
    for (int n = 0; n < kGroups; ++n) VEERY_UNROLL(4)
    for (int i = 0; i < 4; ++i) {
      float y = sums.sum[n][i];
      if constexpr (kInfo.minima) y = kInfo.block == 32 ? y + sums.low[n][i] : y - sums.low[n][i];
      to[value_offset(n * 8 + lane() % 4 * 2 + i % 2, lane() / 4 + i / 2 * 8)] = y;
    }
    sync_warp();
    if (a_.gated == 0) {
      store(of, to, to);
    } else if (own % 2 == 0) {
      tickets_.publish_gate(at.slot);
    } else {
      tickets_.wait_for_gate(at.slot, at.panel());
      store({0, of.panel}, partial_sums(at.slot - 1), to);
      tickets_.release_gate(at.slot);
    }
  }
  /// Not unrolled: it runs once per panel, and unrolled code missed the instruction cache each
  /// time.
  VEERY_GPU void store(PanelIndex of, const float* values, const float* ups) const {
    const int output = of.panel * 16 + lane() % 16;
    const bool is_output = output < a_.weight[of.weight].rows;
    VEERY_UNROLL(1)
    for (int r = lane() / 16; r < 8 * present_ / terms(); r += 2) {
      uint64_t key = 0;
      if (is_output && r * terms() < rows_) {
        float y = values[value_offset(r * terms(), lane() % 16)];
        if (terms() == 2) y = y + values[value_offset(2 * r + 1, lane() % 16)];
        const float up = a_.gated != 0 ? ups[value_offset(r * terms(), lane() % 16)] : 0.0F;
        key = finish_output(a_, r, of.weight, output, y, up);
      }
      if (a_.argmax_keys == nullptr) continue;
      VEERY_UNROLL(4)
      for (int mask = 1; mask < 16; mask *= 2) {
        const uint64_t other = shuffle_xor(key, mask);
        key = other > key ? other : key;
      }
      if (lane() % 16 == 0 && key > best(r)) best(r) = key;
    }
  }
  VEERY_GPU void add_residual(const Weight& w, int panel, Sums& sums) const {
    tickets_.wait_for_outliers();
    for (int word = 0; word < (ring_.units() + 31) / 32; ++word)
      for (uint32_t left = outliers()[word]; left != 0; left &= left - 1)
        add_residual(w.data + int64_t{panel} * w.panel,
                     32 * word + bit_count((left & (0U - left)) - 1), sums);
  }
  VEERY_GPU void add_residual(const uint8_t* units, int b, Sums& sums) const {
    const ActivationGroupLayout layout =
        activation_group_layout(activation_kind(kFormat), a_.act.cols);
    const uint8_t* unit = units + int64_t{b} * unit_layout(kFormat).bytes;
    uint32_t fragment[4];
    sync_warp();
    load_fragment<kFormat>(unit, fragment);
    const int own = b * 32 + lane() % 4 * 8;
    VEERY_UNROLL(4)
    for (int n = 0; n < kGroups; ++n) {
      if (n >= present_) continue;
      const uint8_t* group = group_data(n);
      const auto codes = load<Two<uint32_t>>(group + layout.residual + b * 256 + lane() * 8);
      const auto scale = load<Two<float>>(group + layout.residual_scale + own);
      Two<int32_t> less = {0, 0};
      if constexpr (kInfo.less != 0) less = load<Two<int32_t>>(group + layout.residual_sum + own);
      VEERY_UNROLL(2)
      for (int h = 0; h < (has_half_scales(kFormat) ? 2 : 1); ++h) {
        const Two<float> d = load_scales<kFormat>(unit, h);
        int32_t c[4];
        multiply_block<kFormat>(c, fragment, codes, less, h);
        VEERY_UNROLL(4)
        for (int i = 0; i < 4; ++i) {
          const float factor = i % 2 == 0 ? scale.x : scale.y;
          if (factor > 0)
            sums.sum[n][i] =
                fma((i < 2 ? d.x : d.y) * factor, from_magic_bits(c[i]), sums.sum[n][i]);
        }
      }
    }
  }

  const GemmParams& a_;
  GemmSkinnySmem plan_;
  Tickets tickets_;
  Ring ring_;
  int rows_ = 0, present_ = 0;
};

template <WeightFormat kFormat, bool kTwoGroups>
VEERY_GPU void gemm_skinny(const GemmParams& a) {
  GemmSkinny<kFormat, kTwoGroups>(a).run();
}

}  // namespace veery::gpu
#endif  // VEERY_CUDA_CODE

#define VEERY_GPU_GEMM_SKINNY(X, set, name, format)                                             \
  X(set, gemm_skinny_8_##name, GemmParams, (veery::gpu::GemmSkinnySmem::max_threads(false)), 1, \
    key::gemm_skinny(format, false), (gemm_skinny<format, false>))                              \
  X(set, gemm_skinny_16_##name, GemmParams, (veery::gpu::GemmSkinnySmem::max_threads(true)), 1, \
    key::gemm_skinny(format, true), (gemm_skinny<format, true>))
#define VEERY_GPU_GEMM_SKINNY_KERNELS(X)                    \
  VEERY_GPU_EACH_QUANTIZED(VEERY_GPU_GEMM_SKINNY, X, kCuda) \
  VEERY_GPU_GEMM_SKINNY(X, kCuda, bf16, kBF16)
