// gemm_exact.h: products by sequential accumulation over weights converted to f32, y = fma(x[k],
// w[k], y) with ascending k: for float weights, and for all weights with --exact. The bits are
// those of kernels/cpu/codec/float.cc.
#pragma once
#include "kernels/gpu/dialect/kernel_key.h"
#include "kernels/gpu/params/linear_params.h"

namespace veery::gpu {

/// A thread block is one warp. It copies two panels of outputs and kRows token rows to a
/// multi-stage ring, kColumns columns at a time. A stage is
///   panels  twice: codes or floats, and after them their scales
///   x       f32 [rows][columns]
template <WeightFormat kFormat, int kRows>
struct GemmExactSmem {
  VEERY_STATIC WeightFormatInfo kInfo = weight_format_info(kFormat);
  VEERY_STATIC UnitLayout kUnit = unit_layout(kFormat);
  VEERY_STATIC int kColumns = (kFormat == kF32 ? 32 : 64) * (kRows == 1 ? 2 : 1);
  VEERY_STATIC bool kLarge = kInfo.block > kColumns;  ///< a stage is part of a unit
  /// Bytes of the units of a panel, or of the codes of a part of one.
  VEERY_STATIC int kCodes =
      kLarge ? kColumns / 32 * kUnit.fragment : kColumns / kInfo.block * kUnit.bytes;
  /// Bytes of scales that are stored apart from the codes: those of a whole unit, or of kF8.
  VEERY_STATIC int kScales = kLarge           ? kUnit.bytes - kUnit.d
                             : kFormat == kF8 ? kColumns / 32 * 64
                                              : 0;
  VEERY_STATIC int kPanel = kCodes + kScales;
  VEERY_STATIC int kX = 2 * kPanel, kStage = kX + kRows * kColumns * 4;
};
/// Bytes of the ring, which has as many stages as fit. Metal gives a threadgroup 32 KiB.
VEERY_GPU_HOST constexpr int gemm_exact_smem_bytes(int64_t rows) {
  return rows == 1 ? 32 << 10 : 24 << 10;
}
VEERY_CONSTANT int kGemmExactRows = 8;  ///< token rows per thread block, if there are several

namespace key {

/// `bf16`: in the order of bf16 pairs; otherwise weights of any format.
constexpr KernelKey gemm_exact(bool one_row, bool bf16) {
  return of(Family::kGemmExact, 0, one_row ? RowClass::kOne : RowClass::kMany, bf16);
}

}  // namespace key
}  // namespace veery::gpu

#if defined(VEERY_GPU_CODE)
#include "kernels/gpu/kernels/linear/gemm_direct.h"

namespace veery::gpu {

/// A warp multiplies kRows token rows with two panels of a weight; a lane has one output. Copies of
/// later stages overlap with the products of earlier ones. kFlushed: bf16 weights in the order of
/// docs/numerics.md, the odd column of a pair first and subnormal numbers as 0.
template <int kRows, bool kFlushed>
class GemmExact {
 public:
  /// row_of(r) returns the activation row for row r.
  template <typename RowOf>
  VEERY_GPU GemmExact(const VEERY_THREAD Activations& act,
                      const VEERY_THREAD RowOf& row_of VEERY_CONTEXT)
      : VEERY_CONTEXT_INIT act_(act),
        row_(static_cast<uint64_t>(row_of(lane() % kRows)) * static_cast<uint64_t>(act.stride)) {}

  /// Multiplies one weight, or two in succession; `first` and `last` receive their sums.
  template <typename WeightOf>
  VEERY_GPU void multiply_all(int weights, const VEERY_THREAD WeightOf& weight_of, int pair,
                              VEERY_THREAD float (&first)[kRows],
                              VEERY_THREAD float (&last)[kRows]) {
    VEERY_UNROLL(8)
    for (int r = 0; r < kRows; ++r) last[r] = 0;
    VEERY_UNROLL(1)  // the code of one weight is large
    for (int i = 0; i < weights; ++i) {
      VEERY_UNROLL(8)
      for (int r = 0; r < kRows; ++r) first[r] = last[r], last[r] = 0;
      multiply(weight_of(i), pair, last);
    }
    VEERY_UNROLL(8)
    for (int r = 0; r < kRows; ++r) first[r] = weights > 1 ? first[r] : last[r];
  }

 private:
  /// Steps of four columns whose weights are loaded ahead.
  VEERY_STATIC int kInFlight = kRows == 1 ? 16 : 2;
  template <bool kValue>
  struct Constant {
    VEERY_STATIC bool value = kValue;
  };

  /// Lanes 0 to 15 multiply panel 2 `pair`, the others the next one.
  VEERY_GPU void multiply(const VEERY_THREAD Weight& w, int pair, VEERY_THREAD float (&y)[kRows]) {
    if constexpr (kFlushed) {
      multiply_as<kBF16>(w, pair, y);
    } else {
      switch (w.format) {
        case kQ8: return multiply_as<kQ8>(w, pair, y);
        case kQ8M: return multiply_as<kQ8M>(w, pair, y);
        case kQ4: return multiply_as<kQ4>(w, pair, y);
        case kQ4M: return multiply_as<kQ4M>(w, pair, y);
        case kK4M: return multiply_as<kK4M>(w, pair, y);
        case kK8M: return multiply_as<kK8M>(w, pair, y);
        case kK8: return multiply_as<kK8>(w, pair, y);
        case kK8M16: return multiply_as<kK8M16>(w, pair, y);
        case kMXFP4: return multiply_as<kMXFP4>(w, pair, y);
        case kQ4MW: return multiply_as<kQ4MW>(w, pair, y);
        case kQ8MW: return multiply_as<kQ8MW>(w, pair, y);
        case kNVFP4: return multiply_as<kNVFP4>(w, pair, y);
        case kF32: return multiply_as<kF32>(w, pair, y);
        case kF16: return multiply_as<kF16>(w, pair, y);
        case kF8: return multiply_as<kF8>(w, pair, y);
        default: return multiply_as<kBF16>(w, pair, y);
      }
    }
  }

  template <WeightFormat kFormat>
  VEERY_GPU void multiply_as(const VEERY_THREAD Weight& w, int pair,
                             VEERY_THREAD float (&y)[kRows]) {
    using P = GemmExactSmem<kFormat, kRows>;
    constexpr int kRoom = gemm_exact_smem_bytes(kRows) / P::kStage, kStages = kRoom < 8 ? kRoom : 8;
    static_assert(kStages >= 3 && P::kStage % 16 == 0);
    const int last = panel_count(w) - 1, first = 2 * pair;
    const VEERY_DEVICE uint8_t* const panels[2] = {
        w.data + first * w.panel, w.data + (first < last ? first + 1 : last) * w.panel};
    const auto copy_k_tile = [&](int s) {
      VEERY_SHARED uint8_t* const to = stage(s % kStages * P::kStage);
      if (s * P::kColumns < act_.cols) {
        copy_panel<P>(panels[0], s * P::kColumns, to);
        copy_panel<P>(panels[1], s * P::kColumns, to + P::kPanel);
        copy_rows<P::kColumns>(s * P::kColumns, to + P::kX);
      }
      commit_copies();
    };
    sync_warp();  // the stages of the previous product are free
    for (int s = 0; s < kStages - 1; ++s) copy_k_tile(s);
    for (int s = 0; s * P::kColumns < act_.cols; ++s) {
      wait_for_copies<kStages - 2>();
      sync_warp();
      copy_k_tile(s + kStages - 1);
      const int left = act_.cols - s * P::kColumns;
      const VEERY_SHARED uint8_t* const at = stage(s % kStages * P::kStage);
      const auto add = [&](auto all) {
        add_stage<kFormat, decltype(all)::value>(
            at + lane() / 16 * P::kPanel, s * P::kColumns,
            reinterpret_cast<const VEERY_SHARED float*>(at + P::kX), left, y);
      };
      if (left >= P::kColumns)
        add(Constant<true>());
      else
        add(Constant<false>());
    }
    wait_for_copies<0>();
  }

  VEERY_GPU VEERY_SHARED uint8_t* stage(int at) const { return shared_memory() + at; }

  // Copies

  /// Copies `bytes`, at most kMaxBytes.
  template <int kMaxBytes>
  VEERY_GPU static void copy(VEERY_SHARED uint8_t* to, const VEERY_DEVICE uint8_t* from,
                             int bytes = kMaxBytes) {
    const int own = 16 * lane();
    VEERY_UNROLL(8)
    for (int i = 0; i < kMaxBytes; i += 16 * kWarp)
      if (i + own < kMaxBytes && i + own < bytes) copy_async_16(to + own + i, from + own + i);
  }
  /// Columns from k on, up to the last one.
  template <typename P>
  VEERY_GPU void copy_panel(const VEERY_DEVICE uint8_t* panel, int k,
                            VEERY_SHARED uint8_t* to) const {
    constexpr int kUnitBytes = P::kUnit.bytes, kColumnsOfUnit = P::kInfo.block;
    if constexpr (P::kLarge) {
      const VEERY_DEVICE uint8_t* const unit = panel + int64_t{k / kColumnsOfUnit} * kUnitBytes;
      copy<P::kCodes>(to, unit + k % kColumnsOfUnit / 32 * P::kUnit.fragment);
      copy<P::kScales>(to + P::kCodes, unit + P::kUnit.d);
    } else {
      const int units = (act_.cols - k + kColumnsOfUnit - 1) / kColumnsOfUnit;
      copy<P::kCodes>(to, panel + int64_t{k / kColumnsOfUnit} * kUnitBytes, units * kUnitBytes);
    }
    if constexpr (!P::kLarge && P::kScales > 0) {  // kF8
      copy<P::kScales>(to + P::kCodes, panel + int64_t{act_.cols} * 16 + k / 32 * 64,
                       (act_.cols - k + 31) / 32 * 64);
    }
  }
  /// Rows are padded to a multiple of four columns.
  template <int kColumns>
  VEERY_GPU void copy_rows(int k, VEERY_SHARED uint8_t* to) const {
    constexpr int kAtOnce = kWarp / (kColumns / 4);  // rows
    const int c = lane() % (kColumns / 4) * 4, own = lane() / (kColumns / 4);
    VEERY_UNROLL(8)
    for (int first = 0; first < kRows; first += kAtOnce) {
      const int r = first + own;
      const VEERY_DEVICE uint8_t* const from = act_.data + shuffle(row_, r);
      if (r < kRows && k + c < act_.cols)
        copy_async_16(to + (r * kColumns + c) * 4, from + 4 * (k + c));
    }
  }

  // Sums

  /// Adds four columns, or the first `left`.
  VEERY_GPU static void add_four(const VEERY_SHARED float* x, int stride, int left,
                                 const VEERY_THREAD float (&w)[4], VEERY_THREAD float (&y)[kRows]) {
    VEERY_UNROLL(8)
    for (int r = 0; r < kRows; ++r) {
      const auto four = load_shared<Four<float>>(x + r * stride);
      const float own[4] = {four.x, four.y, four.z, four.w};
      VEERY_UNROLL(4)
      for (int i = 0; i < 4; ++i) {
        const int e = kFlushed ? i ^ 1 : i;
        if (e >= left) continue;
        y[r] = kFlushed ? fma_ftz(own[e], w[e], y[r]) : fma(own[e], w[e], y[r]);
      }
    }
  }

  /// Adds a stage, which begins at column k of the lane's panel, or its first `left` columns.
  template <WeightFormat kFormat, bool kAll>
  VEERY_GPU static void add_stage(const VEERY_SHARED uint8_t* panel, int k,
                                  const VEERY_SHARED float* x, int left,
                                  VEERY_THREAD float (&y)[kRows]) {
    using P = GemmExactSmem<kFormat, kRows>;
    if constexpr (is_quantized(kFormat)) {
      for (int c = 0; c < (kAll ? P::kColumns : left); c += 32) {
        VEERY_UNROLL(kInFlight)
        for (int h = 0; h < 2; ++h) {
          const Two<float> by = scales<kFormat>(panel, k, c, h);
          VEERY_UNROLL(kInFlight)
          for (int q = 0; q < 4; ++q) {
            float w[4];
            codes<kFormat>(panel, c, h, q, by, w);
            add_four(x + c + 16 * h + 4 * q, P::kColumns, 4, w, y);
          }
        }
      }
    } else {
      VEERY_UNROLL(kAll ? kInFlight : 1)
      for (int c = 0; c < (kAll ? P::kColumns : left); c += 4) {
        float w[4];
        floats<kFormat>(panel, c, w);
        add_four(x + c, P::kColumns, kAll ? 4 : left - c, w, y);
      }
    }
  }

  // Weights, with the values of element()

  template <typename T>
  VEERY_GPU static T word(const VEERY_SHARED uint8_t* at) {
    return *reinterpret_cast<const VEERY_SHARED T*>(at);
  }

  /// Columns c to c + 3.
  template <WeightFormat kFormat>
  VEERY_GPU static void floats(const VEERY_SHARED uint8_t* panel, int c,
                               VEERY_THREAD float (&w)[4]) {
    const int n = lane() % 16;
    if constexpr (kFormat == kF32) {
      const auto four = load_shared<Four<float>>(panel + c / 4 * 256 + n * 16);
      w[0] = four.x, w[1] = four.y, w[2] = four.z, w[3] = four.w;
    } else if constexpr (kFormat == kF8) {
      using P = GemmExactSmem<kFormat, kRows>;
      const auto codes = word<uint32_t>(panel + c / 16 * 256 + n * 16 + c % 16);
      const auto scale = word<float>(panel + P::kCodes + c / 32 * 64 + n * 4);
      VEERY_UNROLL(4)
      for (int e = 0; e < 4; ++e) w[e] = scale * e4m3_to_float(codes >> 8 * e & 0xffU);
    } else {
      const auto two = load_shared<Two<uint32_t>>(
          kFormat == kBF16 ? panel + c / 16 * 512 + (4 * (n % 8) + c % 16 / 4) * 16 + n / 8 * 8
                           : panel + c / 8 * 256 + n * 16 + c % 8 * 2);
      VEERY_UNROLL(4)
      for (int e = 0; e < 4; ++e) {
        const uint32_t pair = e < 2 ? two.x : two.y;
        const auto bits = static_cast<uint16_t>(e % 2 != 0 ? pair >> 16 : pair & 0xffffU);
        w[e] = kFormat == kBF16 ? bf16_to_float(bits) : f16_to_float(bits);
      }
    }
  }

  /// Returns the factor and the addend of a code of half h of the block of 32 at column c.
  template <WeightFormat kFormat>
  VEERY_GPU static Two<float> scales(const VEERY_SHARED uint8_t* panel, int k, int c, int h) {
    using P = GemmExactSmem<kFormat, kRows>;
    constexpr WeightFormatInfo f = weight_format_info(kFormat);
    constexpr UnitLayout p = unit_layout(kFormat);
    const int g = lane() % 8, high = lane() / 8 % 2, at = 2 * g + high;
    const VEERY_SHARED uint8_t* const unit =
        P::kLarge ? panel + P::kCodes - p.d : panel + c / 32 * p.bytes;
    if constexpr (has_half_scales(kFormat))
      return {half_scale(unit[p.d + 4 * g + 2 * h + high]), 0};
    const auto number = [&](int offset) {
      return f.wide ? word<float>(unit + offset + 4 * at)
                    : f16_to_float(word<uint16_t>(unit + offset + 2 * at));
    };
    if constexpr (f.block == 32) {
      return {number(p.d), f.minima ? number(p.m) : 0.0F};
    } else {
      const int of = at * (256 / f.sub) + ((k + c) % 256 + 16 * h) / f.sub;
      const auto scale = static_cast<int8_t>(unit[p.scales + of]);
      float less = 0;
      if constexpr (f.minima)
        less = f16_to_float(word<uint16_t>(unit + p.m + 2 * at)) *
               static_cast<float>(unit[p.minima + of]);
      return {number(p.d) * static_cast<float>(scale), negative(less)};
    }
  }
  /// Columns 4 q to 4 q + 3 of half h of the block of 32 at column c.
  template <WeightFormat kFormat>
  VEERY_GPU static void codes(const VEERY_SHARED uint8_t* panel, int c, int h, int q, Two<float> by,
                              VEERY_THREAD float (&w)[4]) {
    using P = GemmExactSmem<kFormat, kRows>;
    constexpr WeightFormatInfo f = weight_format_info(kFormat);
    const int l = 4 * (lane() % 8) + q, high = lane() / 8 % 2;
    const VEERY_SHARED uint8_t* const fragment =
        panel + c / 32 * (P::kLarge ? P::kUnit.fragment : P::kUnit.bytes);
    const auto four = f.bits == 8 ? word<uint32_t>(fragment + l * 16 + (2 * h + high) * 4)
                                  : word<uint32_t>(fragment + l * 8 + high * 4) >> 4 * h;
    VEERY_UNROLL(4)
    for (int e = 0; e < 4; ++e) {
      const uint32_t byte = four >> 8 * e & (f.bits == 8 ? 0xffU : 15U);
      int code = f.bits == 8 ? static_cast<int8_t>(byte) : static_cast<int>(byte);
      if constexpr (kFormat == kMXFP4 || kFormat == kNVFP4) code = mxfp4_value(code);
      w[e] = by.x * static_cast<float>(code - f.less);
      if constexpr (f.minima) w[e] = w[e] + by.y;
    }
  }

  VEERY_CONTEXT_MEMBER
  const VEERY_THREAD Activations& act_;
  uint64_t row_;  ///< offset of row lane() % kRows in bytes
};

/// block_x() selects the pair of panels, block_y() the rows, block_z() the weight.
template <int kRows, bool kFlushed>
VEERY_GPU void gemm_exact(const VEERY_THREAD GemmParams& a VEERY_CONTEXT) {
  wait_for_dependencies();
  const int64_t rows = a.run.count(a.rows), row = int64_t{block_y()} * kRows;
  const int i = block_z();
  if (row >= rows || 2 * block_x() >= panel_count(a.weight[i])) return;
  GemmExact<kRows, kFlushed> product(
      a.act, [&](int r) { return row + r < rows ? row + r : rows - 1; } VEERY_CONTEXT_ARG);
  float y[kRows], up[kRows];
  const auto weight_of = [&](int next) { return a.weight[i + next]; };
  product.multiply_all(a.gated != 0 ? 2 : 1, weight_of, block_x(), y, up);
  const int output = block_x() * 32 + lane();
  if (output >= a.weight[i].rows) return;
  VEERY_UNROLL(8)
  for (int r = 0; r < kRows; ++r) {
    if (row + r >= rows) break;
    const uint64_t key = finish_output(a, row + r, i, output, y[r], up[r]);
    if (a.argmax_keys != nullptr) atomic_max(a.argmax_keys + row + r, key);
  }
}

}  // namespace veery::gpu
#endif  // VEERY_GPU_CODE

#define VEERY_GPU_GEMM_EXACT_KERNELS(X)                                                           \
  X(kShared, gemv_exact, GemmParams, 32, 8, key::gemm_exact(true, false), (gemm_exact<1, false>)) \
  X(kShared, gemm_exact, GemmParams, 32, 8, key::gemm_exact(false, false),                        \
    (gemm_exact<kGemmExactRows, false>))                                                          \
  X(kMetal, gemv_exact_bf16, GemmParams, 32, 0, key::gemm_exact(true, true),                      \
    (gemm_exact<1, true>))                                                                        \
  X(kMetal, gemm_exact_bf16, GemmParams, 32, 0, key::gemm_exact(false, true),                     \
    (gemm_exact<kGemmExactRows, true>))
