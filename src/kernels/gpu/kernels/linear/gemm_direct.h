// gemm_direct.h: products whose warps read weights and activations from device memory directly, and
// the common parts of all products: weight panels, mma fragments, epilogue. Quantised weights give
// the bits of kernels/cpu: exact integer sums of blocks by tensor cores, accumulated sequentially
// by fma over the blocks. bf16 has its own order (docs/numerics.md): tensor cores add up pieces of
// 256 columns, 16 columns at a time, and the sums of pieces are added in order.
#pragma once
#include "kernels/gpu/dialect/kernel_key.h"
#include "kernels/gpu/params/linear_params.h"

namespace veery::gpu {

namespace key {

constexpr KernelKey gemm_direct(WeightFormat format, bool gated) {
  return of(Family::kGemmDirect, format, RowClass::kEight, gated);
}

}  // namespace key
}  // namespace veery::gpu

#if defined(VEERY_GPU_CODE)
#include "kernels/gpu/kernels/linear/quantize_x.h"

namespace veery::gpu {

/// Applies the epilogue to output n of weight `i` and token row r. `up` is the output of the second
/// weight of a gated product. Returns the order_key() of the output if only the argmax is
/// requested.
VEERY_GPU uint64_t finish_output(const VEERY_THREAD GemmParams& a, int64_t r, int i, int n, float y,
                                 float up, float residual) {
  if (a.bias[i] != nullptr) y = y + a.bias[i][n];
  y = activated(y, a.gate);
  if (a.gated != 0) {
    if (a.bias[1] != nullptr) up = up + a.bias[1][n];
    y = y * up;
  }
  if (a.scale != 1) y = y * a.scale;
  const int column = a.column[i] + n;
  if (a.residual) y = y + residual;
  if (a.argmax_keys != nullptr) return order_key(y, n);
  a.out.row(r)[column] = y;
  return 0;
}
/// Returns the residual of output n of weight i, or 0.
VEERY_GPU float residual_of(const VEERY_THREAD GemmParams& a, int64_t r, int i, int n) {
  return a.residual ? a.residual.row(r)[a.column[i] + n] : 0.0F;
}
VEERY_GPU uint64_t finish_output(const VEERY_THREAD GemmParams& a, int64_t r, int i, int n, float y,
                                 float up) {
  return finish_output(a, r, i, n, y, up, residual_of(a, r, i, n));
}

/// A panel of one of the weights of a product.
struct PanelIndex {
  int weight, panel;
};
VEERY_GPU int panel_count(const VEERY_THREAD Weight& w) { return (w.rows + 15) / 16; }
VEERY_GPU int panel_count(const VEERY_THREAD GemmParams& a) {
  int all = panel_count(a.weight[0]);
  for (int i = 1; i < a.weights && a.gated == 0; ++i) all += panel_count(a.weight[i]);
  return all;
}
VEERY_GPU PanelIndex find_panel(const VEERY_THREAD GemmParams& a, int panel) {
  int i = 0;
  while (i + 1 < a.weights && a.gated == 0 && panel >= panel_count(a.weight[i]))
    panel -= panel_count(a.weight[i++]);
  return {i, panel};
}

/// Converts 8 e2m1 codes, one per nibble, to bytes of twice their value: 0 to 7 are 0, 1, 2, 3, 4,
/// 6, 8 and 12; 8 to 15 the negative ones.
VEERY_GPU uint32_t mxfp4_bytes(uint32_t halves) {
#if defined(__CUDACC__)
  const uint32_t at = halves & 0x7777U;
  const uint32_t above = __byte_perm(0x03020100U, 0x0c080604U, at);
  const uint32_t below = __byte_perm(0xfdfeff00U, 0xf4f8fafcU, at);
  const uint32_t is_below = __byte_perm(0xff00U, 0, halves >> 3 & 0x1111U);
  return (above & ~is_below) | (below & is_below);
#else
  constexpr int8_t kValues[] = {0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12};
  uint32_t bytes = 0;
  for (int i = 0; i < 4; ++i)
    bytes |= uint32_t{static_cast<uint8_t>(kValues[halves >> 4 * i & 15U])} << 8 * i;
  return bytes;
#endif
}
/// Bytes 0 and 2 of two words, or bytes 1 and 3.
VEERY_GPU uint32_t every_second(uint32_t x, uint32_t y, bool odd) {
#if defined(__CUDACC__)
  return __byte_perm(x, y, odd ? 0x7531 : 0x6420);
#else
  const int shift = odd ? 8 : 0;
  const auto two = [&](uint32_t w) {
    return (w >> shift & 0xffU) | (w >> (16 + shift) & 0xffU) << 8;
  };
  return two(x) | two(y) << 16;
#endif
}
VEERY_GPU void look_up_codes(const VEERY_THREAD Two<uint32_t>& v, VEERY_THREAD uint32_t (&a)[4]) {
  const uint32_t x0 = mxfp4_bytes(v.x), x1 = mxfp4_bytes(v.x >> 16);
  const uint32_t y0 = mxfp4_bytes(v.y), y1 = mxfp4_bytes(v.y >> 16);
  a[0] = every_second(x0, x1, false), a[2] = every_second(x0, x1, true);
  a[1] = every_second(y0, y1, false), a[3] = every_second(y0, y1, true);
}

/// A lane's part of an A fragment (16 rows, 32 columns) in its packed layout.
template <int kBits>
struct FragmentWords {
  Four<uint32_t> words;
};
template <>
struct FragmentWords<4> {
  Two<uint32_t> words;
};
template <WeightFormat kFormat>
VEERY_GPU FragmentWords<weight_format_info(kFormat).bits == 4 ? 4 : 8> load_fragment_words(
    const VEERY_DEVICE uint8_t* fragment) {
  if constexpr (weight_format_info(kFormat).bits == 4)
    return {load<Two<uint32_t>>(fragment + lane() * 8)};
  else
    return {load<Four<uint32_t>>(fragment + lane() * 16)};
}
/// Unpacks the registers of the A fragment of mma_m16n8k32_s8().
template <WeightFormat kFormat>
VEERY_GPU void unpack_fragment(const VEERY_THREAD FragmentWords<8>& from,
                               VEERY_THREAD uint32_t (&a)[4]) {
  const Four<uint32_t> v = from.words;
  a[0] = v.x, a[1] = kFormat == kBF16 ? v.z : v.y, a[2] = kFormat == kBF16 ? v.y : v.z, a[3] = v.w;
}
template <WeightFormat kFormat>
VEERY_GPU void unpack_fragment(const VEERY_THREAD FragmentWords<4>& from,
                               VEERY_THREAD uint32_t (&a)[4]) {
  const Two<uint32_t> v = from.words;
  if constexpr (kFormat == kMXFP4 || kFormat == kNVFP4) return look_up_codes(v, a);
  a[0] = v.x & 0x0f0f0f0fU, a[1] = v.y & 0x0f0f0f0fU;
  a[2] = v.x >> 4 & 0x0f0f0f0fU, a[3] = v.y >> 4 & 0x0f0f0f0fU;
}
/// Loads and unpacks a fragment.
template <WeightFormat kFormat>
VEERY_GPU void load_fragment(const VEERY_DEVICE uint8_t* fragment, VEERY_THREAD uint32_t (&a)[4]) {
  unpack_fragment<kFormat>(load_fragment_words<kFormat>(fragment), a);
}
/// f16 scales or minima of rows g and g + 8.
VEERY_GPU Two<float> load_f16_pair(const VEERY_DEVICE uint8_t* at) {
  const auto both = load<Two<uint16_t>>(at + lane() / 4 * 4);
  return {f16_to_float(both.x), f16_to_float(both.y)};
}
/// Scales of rows g and g + 8 of a unit as they are stored.
template <bool kWide>
struct PackedScales {
  Two<uint16_t> words;
};
template <>
struct PackedScales<true> {
  Two<float> words;
};
template <WeightFormat kFormat>
VEERY_GPU PackedScales<weight_format_info(kFormat).wide> load_packed_scales(
    const VEERY_DEVICE uint8_t* unit) {
  constexpr UnitLayout p = unit_layout(kFormat);
  if constexpr (weight_format_info(kFormat).wide)
    return {load<Two<float>>(unit + p.d + lane() / 4 * 8)};
  else
    return {load<Two<uint16_t>>(unit + p.d + lane() / 4 * 4)};
}
/// `h`: the half of the block, if has_half_scales().
template <WeightFormat kFormat>
VEERY_GPU Two<float> unpack_scales(const VEERY_THREAD PackedScales<true>& from, int) {
  return from.words;
}
template <WeightFormat kFormat>
VEERY_GPU Two<float> unpack_scales(const VEERY_THREAD PackedScales<false>& from, int h) {
  if constexpr (has_half_scales(kFormat)) {
    const uint32_t both = h == 0 ? from.words.x : from.words.y;
    return {half_scale(both & 0xffU), half_scale(both >> 8)};
  }
  return {f16_to_float(from.words.x), f16_to_float(from.words.y)};
}
template <WeightFormat kFormat>
VEERY_GPU Two<float> load_scales(const VEERY_DEVICE uint8_t* unit, int h = 0) {
  return unpack_scales<kFormat>(load_packed_scales<kFormat>(unit), h);
}
/// Minima of rows g and g + 8 of a unit.
template <WeightFormat kFormat>
VEERY_GPU Two<float> load_minima(const VEERY_DEVICE uint8_t* unit) {
  constexpr UnitLayout p = unit_layout(kFormat);
  if constexpr (weight_format_info(kFormat).wide)
    return load<Two<float>>(unit + p.m + lane() / 4 * 8);
  return load_f16_pair(unit + p.m);
}

/// A quantised token row; all rows have the same ActivationLayout.
struct RowAt {
  const VEERY_DEVICE uint8_t* at;

  VEERY_GPU const VEERY_DEVICE float* floats(int64_t offset) const {
    return reinterpret_cast<const VEERY_DEVICE float*>(at + offset);
  }
  VEERY_GPU const VEERY_DEVICE int32_t* ints(int64_t offset) const {
    return reinterpret_cast<const VEERY_DEVICE int32_t*>(at + offset);
  }
};

/// A warp multiplies kPanels panels with 8 kGroups rows of activations (two per token row with
/// residual quantisation) over all columns.
template <WeightFormat kFormat, int kPanels, int kGroups>
class GemmDirect {
 public:
  VEERY_STATIC WeightFormatInfo kInfo = weight_format_info(kFormat);
  VEERY_STATIC UnitLayout kLayout = unit_layout(kFormat);

  /// row_of(r) returns the activation row for row r of the 8 kGroups rows. Rows past the end repeat
  /// another row and are not stored.
  template <typename RowOf>
  VEERY_GPU GemmDirect(const VEERY_THREAD Activations& act, const VEERY_THREAD Weight& weight,
                       int panel, const VEERY_THREAD RowOf& row_of)
      : w_(weight),
        panel_(panel),
        units_((weight.cols + kInfo.block - 1) / kInfo.block),
        layout_(activation_layout(act.kind, act.cols)) {
    const auto at = [&](int r) { return RowAt{act.data + int64_t{row_of(r)} * act.stride}; };
    VEERY_UNROLL(4)
    for (int n = 0; n < kGroups; ++n) {
      codes_[n] = at(8 * n + lane() / 4);
      own_[n][0] = at(8 * n + lane() % 4 * 2);
      own_[n][1] = at(8 * n + lane() % 4 * 2 + 1);
    }
  }

  VEERY_GPU void multiply() {
    if constexpr (kFormat == kBF16) {
      for (int u = 0; u < units_; u += kBf16PieceColumns / 16) piece(u);
    } else if constexpr (kInfo.block == 32) {
      for (int b = 0; b < units_; ++b) block(b, false);
      if (any_outliers())
        for (int b = 0; b < units_; ++b)
          if (any_outlier(b)) block(b, true);
    } else {
      for (int u = 0; u < units_; ++u) super_block(u);
    }
    if constexpr (kInfo.minima) {
      VEERY_UNROLL(4)
      for (int m = 0; m < kPanels; ++m) VEERY_UNROLL(4)
      for (int n = 0; n < kGroups; ++n) VEERY_UNROLL(4)
      for (int i = 0; i < 4; ++i)
        sum[m][n][i] =
            kInfo.block == 32 ? sum[m][n][i] + low[m][n][i] : sum[m][n][i] - low[m][n][i];
    }
  }

  /// [panel][group][outputs g, g, g + 8, g + 8 of rows 2 t, 2 t + 1, ..]
  float sum[kPanels][kGroups][4] = {};

 private:
  VEERY_GPU const VEERY_DEVICE uint8_t* unit(int m, int u) const {
    const int last = panel_count(w_) - 1;
    const int p = panel_ + m < last ? panel_ + m : last;  // past the last panel: not stored
    return w_.data + p * w_.panel + int64_t{u} * kLayout.bytes;
  }

  VEERY_GPU bool any_outliers() const {
    bool any = false;
    for (int n = 0; n < kGroups; ++n) any |= codes_[n].ints(layout_.outliers)[0] > 0;
    return ballot(any) != 0;
  }
  VEERY_GPU bool any_outlier(int b) const {
    bool any = false;
    for (int n = 0; n < kGroups; ++n) any |= codes_[n].floats(layout_.residual_scale)[b] > 0;
    return ballot(any) != 0;
  }

  VEERY_GPU void block(int b, bool residual) {
    const int t = lane() % 4;
    sync_warp();
    Two<uint32_t> codes[kGroups];
    VEERY_UNROLL(4)
    for (int n = 0; n < kGroups; ++n)
      codes[n] = load<Two<uint32_t>>(codes_[n].at + (residual ? layout_.residual : layout_.codes) +
                                     b * 32 + 8 * t);
    VEERY_UNROLL(4)
    for (int m = 0; m < kPanels; ++m) {
      uint32_t fragment[4];
      load_fragment<kFormat>(unit(m, b), fragment);
      constexpr int kHalves = has_half_scales(kFormat) ? 2 : 1;
      Two<float> least = {0, 0};
      if constexpr (kInfo.minima) least = load_minima<kFormat>(unit(m, b));
      VEERY_UNROLL(4)
      for (int n = 0; n < kGroups; ++n) VEERY_UNROLL(2)
      for (int h = 0; h < kHalves; ++h) {
        const Two<float> d = load_scales<kFormat>(unit(m, b), h);
        int32_t c[4] = {0, 0, 0, 0};
        if constexpr (has_half_scales(kFormat))
          mma_m16n8k16_s8(c, fragment[2 * h], fragment[2 * h + 1],
                          h == 0 ? codes[n].x : codes[n].y);
        else
          mma_m16n8k32_s8(c, fragment, codes[n].x, codes[n].y);
        VEERY_UNROLL(2)
        for (int e = 0; e < 2; ++e) {
          const RowAt of = own_[n][e];
          const float scale = of.floats(residual ? layout_.residual_scale : layout_.scale)[b];
          if (residual && !(scale > 0)) continue;
          const int32_t less =
              kInfo.less != 0
                  ? kInfo.less * of.ints(residual ? layout_.residual_sum : layout_.sum)[b]
                  : 0;
          sum[m][n][e] = fma(d.x * scale, static_cast<float>(c[e] - less), sum[m][n][e]);
          sum[m][n][2 + e] =
              fma(d.y * scale, static_cast<float>(c[2 + e] - less), sum[m][n][2 + e]);
          if constexpr (kInfo.minima) {
            if (residual) continue;
            const float moment = of.floats(layout_.moment)[b];
            low[m][n][e] = fma(least.x, moment, low[m][n][e]);
            low[m][n][2 + e] = fma(least.y, moment, low[m][n][2 + e]);
          }
        }
      }
    }
  }

  // Units u to u + 15, or up to the last one.
  VEERY_GPU void piece(int u) {
    constexpr int kInFlight = 4;
    const int end = u + kBf16PieceColumns / 16 < units_ ? u + kBf16PieceColumns / 16 : units_;
    float part[kPanels][kGroups][4] = {};
    for (; u < end; u += kInFlight) {
      uint32_t fragment[kInFlight][kPanels][4];
      Two<uint32_t> codes[kInFlight][kGroups];
      VEERY_UNROLL(4)
      for (int j = 0; j < kInFlight; ++j) {
        const int at = u + j < end ? u + j : end - 1;
        VEERY_UNROLL(4)
        for (int m = 0; m < kPanels; ++m) load_fragment<kFormat>(unit(m, at), fragment[j][m]);
        VEERY_UNROLL(4)
        for (int n = 0; n < kGroups; ++n)
          codes[j][n] = load<Two<uint32_t>>(codes_[n].at + at * 32 + lane() % 4 * 8);
      }
      VEERY_UNROLL(4)
      for (int j = 0; j < kInFlight; ++j) {
        if (u + j >= end) continue;
        VEERY_UNROLL(4)
        for (int m = 0; m < kPanels; ++m) VEERY_UNROLL(4)
        for (int n = 0; n < kGroups; ++n)
          mma_m16n8k16_bf16(part[m][n], fragment[j][m], codes[j][n].x, codes[j][n].y);
      }
    }
    VEERY_UNROLL(4)
    for (int m = 0; m < kPanels; ++m) VEERY_UNROLL(4)
    for (int n = 0; n < kGroups; ++n) VEERY_UNROLL(4)
    for (int i = 0; i < 4; ++i) sum[m][n][i] = sum[m][n][i] + part[m][n][i];
  }

  VEERY_GPU void super_block(int u) {
    constexpr int kHalves = 32 / kInfo.sub, kRowScales = 8 * kHalves;
    const int g = lane() / 4, t = lane() % 4;
    int32_t all[kPanels][kGroups][4] = {}, lows[kPanels][kGroups][4] = {};
    VEERY_UNROLL(2)
    for (int s = 0; s < 8; ++s) {
      Two<uint32_t> codes[kGroups];
      int32_t shift[kGroups][2], sums[kGroups][2][2];
      VEERY_UNROLL(4)
      for (int n = 0; n < kGroups; ++n) {
        codes[n] = load<Two<uint32_t>>(codes_[n].at + layout_.codes + u * 256 + s * 32 + 8 * t);
        VEERY_UNROLL(2)
        for (int e = 0; e < 2; ++e) {
          const RowAt own = own_[n][e];
          shift[n][e] = own.ints(layout_.shift)[u * 8 + s];
          sums[n][e][0] = own.ints(layout_.sum)[u * 16 + s * 2];
          sums[n][e][1] = own.ints(layout_.sum)[u * 16 + s * 2 + 1];
        }
      }
      VEERY_UNROLL(4)
      for (int m = 0; m < kPanels; ++m) {
        uint32_t fragment[4];
        load_fragment<kFormat>(unit(m, u) + s * kLayout.fragment, fragment);
        const auto* scales =
            reinterpret_cast<const VEERY_DEVICE int8_t*>(unit(m, u) + kLayout.scales);
        const VEERY_DEVICE uint8_t* minima = unit(m, u) + kLayout.minima;
        VEERY_UNROLL(4)
        for (int n = 0; n < kGroups; ++n) VEERY_UNROLL(2)
        for (int h = 0; h < kHalves; ++h) {
          int32_t c[4] = {0, 0, 0, 0};
          if constexpr (kHalves == 1)
            mma_m16n8k32_s8(c, fragment, codes[n].x, codes[n].y);
          else
            mma_m16n8k16_s8(c, fragment[2 * h], fragment[2 * h + 1],
                            h == 0 ? codes[n].x : codes[n].y);
          VEERY_UNROLL(4)
          for (int i = 0; i < 4; ++i) {
            const int at = (2 * g + i / 2) * kRowScales + s * kHalves + h;
            all[m][n][i] += scales[at] * c[i] * (1 << shift[n][i % 2]);
            if constexpr (kInfo.minima)
              lows[m][n][i] += minima[at] * (kHalves == 2 ? sums[n][i % 2][h]
                                                          : sums[n][i % 2][0] + sums[n][i % 2][1]);
          }
        }
      }
    }
    add_super_block(u, all, lows);
  }

  // One step of the sequential accumulation.
  VEERY_GPU void add_super_block(int u, const VEERY_THREAD int32_t (&all)[kPanels][kGroups][4],
                                 const VEERY_THREAD int32_t (&lows)[kPanels][kGroups][4]) {
    VEERY_UNROLL(4)
    for (int m = 0; m < kPanels; ++m) {
      const Two<float> d = load_scales<kFormat>(unit(m, u));
      Two<float> least = {0, 0};
      if constexpr (kInfo.minima) least = load_f16_pair(unit(m, u) + kLayout.m);
      VEERY_UNROLL(4)
      for (int n = 0; n < kGroups; ++n) VEERY_UNROLL(4)
      for (int i = 0; i < 4; ++i) {
        const RowAt of = own_[n][i % 2];
        const float scale = of.floats(layout_.scale)[u];
        sum[m][n][i] =
            fma((i < 2 ? d.x : d.y) * scale, static_cast<float>(all[m][n][i]), sum[m][n][i]);
        if constexpr (kInfo.minima)
          low[m][n][i] = fma((i < 2 ? least.x : least.y) * scale, static_cast<float>(lows[m][n][i]),
                             low[m][n][i]);
      }
    }
  }

  float low[kInfo.minima ? kPanels : 1][kInfo.minima ? kGroups : 1][4] = {};
  const VEERY_THREAD Weight& w_;
  int panel_, units_;
  ActivationLayout layout_;
  RowAt codes_[kGroups], own_[kGroups][2];  ///< rows lane / 4, and 2 t and 2 t + 1, of each group
};

template <WeightFormat kFormat, int kPanels, int kGroups, bool kGated>
VEERY_GPU void gemm_direct(const VEERY_THREAD GemmParams& a VEERY_CONTEXT) {
  wait_for_dependencies();
  const int terms = a.act.residual_rows != 0 ? 2 : 1;
  const int rows = static_cast<int>(a.run.count(a.rows)) * terms;
  const int row = block_y() * 8 * kGroups;
  // block_z() selects the weight.
  const int i = block_z();
  const int panel = (block_x() * warps() + warp()) * kPanels;
  if (row >= rows || panel >= panel_count(a.weight[i])) return;
  using Product = GemmDirect<kFormat, kPanels, kGroups>;
  const auto row_of = [&](int r) { return row + r < rows ? row + r : rows - 1; };
  Product product(a.act, a.weight[i], panel, row_of);
  product.multiply();
  const auto store = [&](const VEERY_THREAD Product& up) {
    const int g = lane() / 4, t = lane() % 4;
    VEERY_UNROLL(4)
    for (int m = 0; m < kPanels; ++m) VEERY_UNROLL(4)
    for (int n = 0; n < kGroups; ++n) VEERY_UNROLL(4)
    for (int k = 0; k < 4; ++k) {
      const int output = (panel + m) * 16 + g + k / 2 * 8;
      if (output >= a.weight[i].rows) continue;
      int64_t r = row + 8 * n + 2 * t + k % 2;
      float y = product.sum[m][n][k];
      if (terms == 2) {
        if (k % 2 != 0) continue;
        y = y + product.sum[m][n][k + 1 < 4 ? k + 1 : k];
        r /= 2;
      }
      if (r * terms >= rows) continue;
      const uint64_t key = finish_output(a, r, i, output, y, kGated ? up.sum[m][n][k] : 0.0F);
      if (a.argmax_keys != nullptr) atomic_max(a.argmax_keys + r, key);
    }
  };
  if constexpr (kGated) {
    Product up(a.act, a.weight[1], panel, row_of);
    up.multiply();
    store(up);
  } else {
    store(product);
  }
}

}  // namespace veery::gpu
#endif  // VEERY_GPU_CODE

#define VEERY_GPU_GEMM_DIRECT(X, set, name, format)                                    \
  X(set, gemm_direct_##name, GemmParams, 128, 0, key::gemm_direct(format, false),      \
    (gemm_direct<format, 1, 1, false>))                                                \
  X(set, gemm_direct_gated_##name, GemmParams, 128, 0, key::gemm_direct(format, true), \
    (gemm_direct<format, 1, 1, true>))
#define VEERY_GPU_GEMM_DIRECT_KERNELS(X)                      \
  VEERY_GPU_EACH_QUANTIZED(VEERY_GPU_GEMM_DIRECT, X, kShared) \
  VEERY_GPU_GEMM_DIRECT(X, kCuda, bf16, kBF16)
