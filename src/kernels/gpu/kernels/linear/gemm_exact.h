// fma.h: products as chains of fma over weights that are brought to floats, y = fma(x[k], w[k], y)
// with k in order: of weights that are floats, and of all with --exact. The same bits as
// kernels/cpu/codec/float.cc.
#pragma once
#include "kernels/gpu/smem/gemm_exact_smem.h"
#include "kernels/gpu/kernels/experts.h"

namespace veery::gpu {

/// kRows rows of x with two panels of a weight, by a warp: a lane has an output. What is multiplied
/// is on its way while what came before is multiplied. `kFlushed`: weights of bf16 in the order of
/// docs/numerics.md, the odd one of a pair first and subnormal numbers being 0.
template <int kRows, bool kFlushed>
class FmaProduct {
 public:
  /// `row_of`: which row of the form row r is.
  template <typename RowOf>
  VEERY_GPU FmaProduct(const VEERY_THREAD Form& form, const VEERY_THREAD RowOf& row_of VEERY_HERE)
      : VEERY_HERE_KEPT form_(form),
        row_(static_cast<uint64_t>(row_of(lane() % kRows)) * static_cast<uint64_t>(form.stride)) {}

  /// Of two weights one after the other, or of one: sums of the first and of the last.
  template <typename WeightOf>
  VEERY_GPU void multiply_all(int weights, const VEERY_THREAD WeightOf& weight_of, int pair,
                              VEERY_THREAD float (&first)[kRows],
                              VEERY_THREAD float (&last)[kRows]) {
    VEERY_UNROLL(8)
    for (int r = 0; r < kRows; ++r) last[r] = 0;
    VEERY_UNROLL(1)  // there is much code for each weight
    for (int i = 0; i < weights; ++i) {
      VEERY_UNROLL(8)
      for (int r = 0; r < kRows; ++r) first[r] = last[r], last[r] = 0;
      multiply(weight_of(i), pair, last);
    }
    VEERY_UNROLL(8)
    for (int r = 0; r < kRows; ++r) first[r] = weights > 1 ? first[r] : last[r];
  }

 private:
  /// Steps of four columns whose words are asked for together.
  VEERY_STATIC int kAhead = kRows == 1 ? 16 : 2;
  template <bool kValue>
  struct Constant {
    VEERY_STATIC bool value = kValue;
  };

  /// Panel 2 `pair` by lanes 0 to 15, the next one by the others.
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
        case kBook: return multiply_as<kBook>(w, pair, y);
        case kQ4MW: return multiply_as<kQ4MW>(w, pair, y);
        case kQ8MW: return multiply_as<kQ8MW>(w, pair, y);
        case kBook2: return multiply_as<kBook2>(w, pair, y);
        case kF32: return multiply_as<kF32>(w, pair, y);
        case kF16: return multiply_as<kF16>(w, pair, y);
        case kF8: return multiply_as<kF8>(w, pair, y);
        default: return multiply_as<kBF16>(w, pair, y);
      }
    }
  }

  template <Format kFormat>
  VEERY_GPU void multiply_as(const VEERY_THREAD Weight& w, int pair,
                             VEERY_THREAD float (&y)[kRows]) {
    using P = FmaPlaces<kFormat, kRows>;
    constexpr int kRoom = fma_bytes(kRows) / P::kStage, kStages = kRoom < 8 ? kRoom : 8;
    static_assert(kStages >= 3 && P::kStage % 16 == 0);
    const int last = panels_of(w) - 1, first = 2 * pair;
    const VEERY_DEVICE uint8_t* const panels[2] = {
        w.data + first * w.panel, w.data + (first < last ? first + 1 : last) * w.panel};
    const auto ask = [&](int s) {
      VEERY_SHARED uint8_t* const to = stage(s % kStages * P::kStage);
      if (s * P::kColumns < form_.cols) {
        ask_panel<P>(panels[0], s * P::kColumns, to);
        ask_panel<P>(panels[1], s * P::kColumns, to + P::kPanel);
        ask_rows<P::kColumns>(s * P::kColumns, to + P::kX);
      }
      end_group();
    };
    sync_warp();  // nobody looks at what a product before has left
    for (int s = 0; s < kStages - 1; ++s) ask(s);
    for (int s = 0; s * P::kColumns < form_.cols; ++s) {
      wait_for_groups<kStages - 2>();
      sync_warp();
      ask(s + kStages - 1);
      const int left = form_.cols - s * P::kColumns;
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
    wait_for_groups<0>();
  }

  VEERY_GPU VEERY_SHARED uint8_t* stage(int at) const { return shared_memory() + at; }

  // Copies

  /// `bytes`, but kMost at most.
  template <int kMost>
  VEERY_GPU static void copy(VEERY_SHARED uint8_t* to, const VEERY_DEVICE uint8_t* from,
                             int bytes = kMost) {
    const int own = 16 * lane();
    VEERY_UNROLL(8)
    for (int i = 0; i < kMost; i += 16 * kWarp)
      if (i + own < kMost && i + own < bytes) begin_copy(to + own + i, from + own + i);
  }
  /// Columns from k on, as far as they are there.
  template <typename P>
  VEERY_GPU void ask_panel(const VEERY_DEVICE uint8_t* panel, int k,
                           VEERY_SHARED uint8_t* to) const {
    constexpr int kUnitBytes = P::kUnit.bytes, kColumnsOfUnit = P::kInfo.block;
    if constexpr (P::kLarge) {
      const VEERY_DEVICE uint8_t* const unit = panel + int64_t{k / kColumnsOfUnit} * kUnitBytes;
      copy<P::kCodes>(to, unit + k % kColumnsOfUnit / 32 * P::kUnit.tile);
      copy<P::kScales>(to + P::kCodes, unit + P::kUnit.d);
    } else {
      const int units = (form_.cols - k + kColumnsOfUnit - 1) / kColumnsOfUnit;
      copy<P::kCodes>(to, panel + int64_t{k / kColumnsOfUnit} * kUnitBytes, units * kUnitBytes);
    }
    if constexpr (!P::kLarge && P::kScales > 0) {  // of kF8
      copy<P::kScales>(to + P::kCodes, panel + int64_t{form_.cols} * 16 + k / 32 * 64,
                       (form_.cols - k + 31) / 32 * 64);
    }
  }
  /// Rows have memory for a multiple of four columns.
  template <int kColumns>
  VEERY_GPU void ask_rows(int k, VEERY_SHARED uint8_t* to) const {
    constexpr int kAtOnce = kWarp / (kColumns / 4);  // rows
    const int c = lane() % (kColumns / 4) * 4, own = lane() / (kColumns / 4);
    VEERY_UNROLL(8)
    for (int first = 0; first < kRows; first += kAtOnce) {
      const int r = first + own;
      const VEERY_DEVICE uint8_t* const from = form_.data + shuffle(row_, r);
      if (r < kRows && k + c < form_.cols)
        begin_copy(to + (r * kColumns + c) * 4, from + 4 * (k + c));
    }
  }

  // Sums

  /// Four columns, of which `left` are there.
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
        y[r] = kFlushed ? fma_flushed(own[e], w[e], y[r]) : fma(own[e], w[e], y[r]);
      }
    }
  }

  /// Columns from k on of the lane's panel: those of a stage, or the last `left`.
  template <Format kFormat, bool kAll>
  VEERY_GPU static void add_stage(const VEERY_SHARED uint8_t* panel, int k,
                                  const VEERY_SHARED float* x, int left,
                                  VEERY_THREAD float (&y)[kRows]) {
    using P = FmaPlaces<kFormat, kRows>;
    if constexpr (is_coded(kFormat)) {
      for (int c = 0; c < (kAll ? P::kColumns : left); c += 32) {
        VEERY_UNROLL(kAhead)
        for (int h = 0; h < 2; ++h) {
          const Two<float> by = scales<kFormat>(panel, k, c, h);
          VEERY_UNROLL(kAhead)
          for (int q = 0; q < 4; ++q) {
            float w[4];
            codes<kFormat>(panel, c, h, q, by, w);
            add_four(x + c + 16 * h + 4 * q, P::kColumns, 4, w, y);
          }
        }
      }
    } else {
      VEERY_UNROLL(kAll ? kAhead : 1)
      for (int c = 0; c < (kAll ? P::kColumns : left); c += 4) {
        float w[4];
        floats<kFormat>(panel, c, w);
        add_four(x + c, P::kColumns, kAll ? 4 : left - c, w, y);
      }
    }
  }

  // Weights, as element() has them

  template <typename T>
  VEERY_GPU static T word(const VEERY_SHARED uint8_t* at) {
    return *reinterpret_cast<const VEERY_SHARED T*>(at);
  }

  /// Columns c to c + 3.
  template <Format kFormat>
  VEERY_GPU static void floats(const VEERY_SHARED uint8_t* panel, int c,
                               VEERY_THREAD float (&w)[4]) {
    const int n = lane() % 16;
    if constexpr (kFormat == kF32) {
      const auto four = load_shared<Four<float>>(panel + c / 4 * 256 + n * 16);
      w[0] = four.x, w[1] = four.y, w[2] = four.z, w[3] = four.w;
    } else if constexpr (kFormat == kF8) {
      using P = FmaPlaces<kFormat, kRows>;
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
        w[e] = kFormat == kBF16 ? bf16_to_float(bits) : half_to_float(bits);
      }
    }
  }

  /// What a code of half h of the block of 32 at column c is multiplied by, and what is added.
  template <Format kFormat>
  VEERY_GPU static Two<float> scales(const VEERY_SHARED uint8_t* panel, int k, int c, int h) {
    using P = FmaPlaces<kFormat, kRows>;
    constexpr FormatInfo f = format_info(kFormat);
    constexpr UnitPlaces p = unit_places(kFormat);
    const int g = lane() % 8, high = lane() / 8 % 2, at = 2 * g + high;
    const VEERY_SHARED uint8_t* const unit =
        P::kLarge ? panel + P::kCodes - p.d : panel + c / 32 * p.bytes;
    if constexpr (has_halves(kFormat)) return {half_scale(unit[p.d + 4 * g + 2 * h + high]), 0};
    const auto number = [&](int place) {
      return f.wide ? word<float>(unit + place + 4 * at)
                    : half_to_float(word<uint16_t>(unit + place + 2 * at));
    };
    if constexpr (f.block == 32) {
      return {number(p.d), f.minima ? number(p.m) : 0.0F};
    } else {
      const int of = at * (256 / f.sub) + ((k + c) % 256 + 16 * h) / f.sub;
      const auto scale = static_cast<int8_t>(unit[p.scales + of]);
      float less = 0;
      if constexpr (f.minima)
        less = half_to_float(word<uint16_t>(unit + p.m + 2 * at)) *
               static_cast<float>(unit[p.minima + of]);
      return {number(p.d) * static_cast<float>(scale), negative(less)};
    }
  }
  /// Columns 4 q to 4 q + 3 of half h of the block of 32 at column c.
  template <Format kFormat>
  VEERY_GPU static void codes(const VEERY_SHARED uint8_t* panel, int c, int h, int q, Two<float> by,
                              VEERY_THREAD float (&w)[4]) {
    using P = FmaPlaces<kFormat, kRows>;
    constexpr FormatInfo f = format_info(kFormat);
    const int l = 4 * (lane() % 8) + q, high = lane() / 8 % 2;
    const VEERY_SHARED uint8_t* const tile =
        panel + c / 32 * (P::kLarge ? P::kUnit.tile : P::kUnit.bytes);
    const auto four = f.bits == 8 ? word<uint32_t>(tile + l * 16 + (2 * h + high) * 4)
                                  : word<uint32_t>(tile + l * 8 + high * 4) >> 4 * h;
    VEERY_UNROLL(4)
    for (int e = 0; e < 4; ++e) {
      const uint32_t byte = four >> 8 * e & (f.bits == 8 ? 0xffU : 15U);
      int code = f.bits == 8 ? static_cast<int8_t>(byte) : static_cast<int>(byte);
      if constexpr (kFormat == kBook || kFormat == kBook2) code = book_value(code);
      w[e] = by.x * static_cast<float>(code - f.less);
      if constexpr (f.minima) w[e] = w[e] + by.y;
    }
  }

  VEERY_HERE_MEMBER
  const VEERY_THREAD Form& form_;
  uint64_t row_;  ///< where row lane() % kRows begins, in bytes
};

/// block_x(): which two panels, block_y(): which rows, block_z(): of which weight.
template <int kRows, bool kFlushed>
VEERY_GPU void linear_fma(const VEERY_THREAD LinearArguments& a VEERY_HERE) {
  wait_for_inputs();
  const int64_t rows = a.run.count(a.rows), row = int64_t{block_y()} * kRows;
  const int i = block_z();
  if (row >= rows || 2 * block_x() >= panels_of(a.weight[i])) return;
  FmaProduct<kRows, kFlushed> product(
      a.form, [&](int r) { return row + r < rows ? row + r : rows - 1; } VEERY_GO);
  float y[kRows], up[kRows];
  const auto weight_of = [&](int next) { return a.weight[i + next]; };
  product.multiply_all(a.gated != 0 ? 2 : 1, weight_of, block_x(), y, up);
  const int output = block_x() * 32 + lane();
  if (output >= a.weight[i].rows) return;
  VEERY_UNROLL(8)
  for (int r = 0; r < kRows; ++r) {
    if (row + r >= rows) break;
    const uint64_t key = finish_output(a, row + r, i, output, y[r], up[r]);
    if (a.best != nullptr) keep_largest(a.best + row + r, key);
  }
}

/// block_x(): which two panels, block_y(): which group of pairs.
template <bool kFlushed>
VEERY_GPU void experts_fma(const VEERY_THREAD ExpertArguments& a VEERY_HERE) {
  wait_for_inputs();
  if (block_y() >= *a.pairs.groups || 2 * block_x() >= panels_of(a.weight[0])) return;
  const PairGroup group = group_at(a.pairs, block_y());
  const VEERY_DEVICE int32_t* order = a.pairs.order + group.first;
  const auto weight_of = [&](int i) { return of_expert(a, i, group.expert); };
  const int output = block_x() * 32 + lane();
  for (int first = 0; first < group.count; first += kFmaRows) {
    FmaProduct<kFmaRows, kFlushed> product(a.form, [&](int r) {
      return order[first + r < group.count ? first + r : group.count - 1] / a.rows_each;
    } VEERY_GO);
    float y[kFmaRows], up[kFmaRows];
    product.multiply_all(a.gated != 0 ? 2 : 1, weight_of, block_x(), y, up);
    if (output >= a.weight[0].rows) continue;
    VEERY_UNROLL(8)
    for (int r = 0; r < kFmaRows; ++r)
      if (first + r < group.count)
        store_pair(a, group.expert, order[first + r], output, y[r], up[r]);
  }
}

}  // namespace veery::gpu
