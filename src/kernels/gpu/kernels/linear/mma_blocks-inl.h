// mma_blocks-inl.h: integer sums of quantisation blocks by mma, for panels and row groups
// (ActivationGroupLayout). The bits are those of gemm_direct.h.
#pragma once
#include "kernels/gpu/kernels/linear/gemm_direct.h"

namespace veery::gpu {

// The bits of 1.5 * 2^23. An integer n below 2^22 added to them, read as a float and reduced by 1.5
// * 2^23, is n as a float.
inline constexpr int32_t kMagicBits = 0x4b400000;
/// kMagicBits minus WeightFormatInfo::less times a sum of codes. Wraps for rows that do not exist.
template <WeightFormat kFormat>
VEERY_GPU int32_t bits_less(int32_t sum) {
  constexpr auto kLess = static_cast<uint32_t>(weight_format_info(kFormat).less);
  return static_cast<int32_t>(static_cast<uint32_t>(kMagicBits) -
                              kLess * static_cast<uint32_t>(sum));
}
VEERY_GPU float from_magic_bits(int32_t bits) { return bits_to_float(bits) - 12582912.0F; }

/// Sums of a block of 32 columns for from_magic_bits(); of half h if has_half_scales(). `sum`: sums
/// of the activation codes, if WeightFormatInfo::less is subtracted from the weights.
template <WeightFormat kFormat>
VEERY_GPU void multiply_block(int32_t (&c)[4], const uint32_t (&fragment)[4],
                              const Two<uint32_t>& codes, const Two<int32_t>& sum, int h) {
  if constexpr (has_half_scales(kFormat)) {
    c[0] = c[1] = c[2] = c[3] = kMagicBits;
    mma_m16n8k16_s8(c, fragment[2 * h], fragment[2 * h + 1], h == 0 ? codes.x : codes.y);
  } else {
    mma_m16n8k32_s8_from(c, fragment, codes.x, codes.y, bits_less<kFormat>(sum.x),
                         bits_less<kFormat>(sum.y));
  }
}

/// A block of 256 columns of kM panels, kWeightBytes apart, and kN row groups, kGroupBytes apart.
/// kSyncs: a warp barrier before each 32 columns keeps nvcc from hoisting more loads than there are
/// registers.
template <WeightFormat kFormat, int kM, int kN, int kWeightBytes, int kGroupBytes,
          bool kSyncs = true>
class MmaSuperBlock {
 public:
  static constexpr WeightFormatInfo kInfo = weight_format_info(kFormat);
  static constexpr UnitLayout kLayout = unit_layout(kFormat);
  static constexpr ActivationGroupLayout kActLayout =
      activation_group_layout(ActivationKind::kInt8Block256, 256);
  static constexpr int kHalves = kInfo.block == 256 ? 32 / kInfo.sub : 1, kRowScales = 8 * kHalves;

  /// Adds products of codes, times scales and shifts, to `all`, for `present` groups.
  static VEERY_GPU void add_up(const uint8_t* weights, const uint8_t* act, int present,
                               int32_t (&all)[kM][kN][4]) {
    bool usual = true;
    VEERY_UNROLL(4)
    for (int n = 0; n < kN; ++n) VEERY_UNROLL(2)
    for (int half = 0; half < 2; ++half) {
      if (n >= present) continue;
      const Two<uint32_t> own = shifts_at(act, n, half);
      usual = usual && own.x == kDefaultShifts && own.y == kDefaultShifts;
    }
    // Usually no part is much smaller than the others, so that all shifts are 3.
    const bool default_shifts = ballot(!usual) == 0;
    VEERY_UNROLL(2)
    for (int half = 0; half < 2; ++half) {
      if (default_shifts)
        half_block<false>(weights, act, half, present, all);
      else
        half_block<true>(weights, act, half, present, all);
    }
  }

  /// Sums of minima times sums of codes: exact, as a sum of 32 is at most 32 x 127 x 8 and so all
  /// sums are below 2^24.
  struct Minima {
    uint32_t of[kHalves][4];

    VEERY_GPU void load(const uint8_t* unit) {
      const int g = lane() / 4, t = lane() % 4;
      VEERY_UNROLL(2)
      for (int h = 0; h < kHalves; ++h) {
        const uint8_t* at = unit + kLayout.minima + 2 * g * kRowScales + 8 * h + 2 * t;
        of[h][2] = bytes_to_f16x2(gpu::load<uint16_t>(at));
        of[h][3] = bytes_to_f16x2(gpu::load<uint16_t>(at + kRowScales));
        of[h][0] = f16x2_times_64(of[h][2]);
        of[h][1] = f16x2_times_64(of[h][3]);
      }
    }
    VEERY_GPU void add_up(const uint8_t* act, float (&lows)[4]) const {
      VEERY_UNROLL(2)
      for (int h = 0; h < kHalves; ++h) {
        const auto sums = gpu::load<Two<uint32_t>>(
            act + (kHalves == 1 ? kActLayout.sums : kActLayout.sums16 + 256 * h) + lane() * 8);
        float part[4];
        mma_m16n8k16_f16_zero(part, of[h], sums.x, sums.y);
        VEERY_UNROLL(4)
        for (int i = 0; i < 4; ++i) lows[i] = h == 0 ? part[i] : lows[i] + part[i];
      }
    }
    /// The same for scales of 32 columns, with loaded sums.
    VEERY_GPU void add_up(const Two<uint32_t>& sums, float (&lows)[4]) const {
      static_assert(kHalves == 1);
      mma_m16n8k16_f16_zero(lows, of[0], sums.x, sums.y);
    }
  };

 private:
  static constexpr uint32_t kDefaultShifts = 0x03030303;

  // Weight scales of rows g and g + 8 for 128 columns: a word per row for scales of 32, two words
  // per row for scales of 16.
  static VEERY_GPU void load_sub_scales(const uint8_t* unit, int half,
                                        Four<uint32_t> (&to)[kHalves]) {
    const uint8_t* at = unit + kLayout.scales + lane() / 4 * 2 * kRowScales;
    if constexpr (kHalves == 1) {
      to[0].x = load<uint32_t>(at + 4 * half);
      to[0].y = load<uint32_t>(at + 8 + 4 * half);
    } else {
      const auto low = load<Two<uint32_t>>(at + 8 * half);
      const auto high = load<Two<uint32_t>>(at + 16 + 8 * half);
      to[0].x = low.x, to[1].x = low.y, to[0].y = high.x, to[1].y = high.y;
    }
  }
  static VEERY_GPU int scale_of(const Four<uint32_t> (&of)[kHalves], int s, int h, bool high) {
    const int at = s * kHalves + h;  // of 4 kHalves
    const Four<uint32_t>& words = of[at / 4];
    return signed_byte_of(high ? words.y : words.x, at % 4);
  }
  static VEERY_GPU Two<uint32_t> shifts_at(const uint8_t* act, int n, int half) {
    return load<Two<uint32_t>>(act + n * kGroupBytes + kActLayout.shift + half * 32 +
                               lane() % 4 * 8);
  }
  template <bool kShifts>
  static VEERY_GPU void half_block(const uint8_t* weights, const uint8_t* act, int half,
                                   int present, int32_t (&all)[kM][kN][4]) {
    Two<uint32_t> shifts[kN] = {};
    VEERY_UNROLL(4)
    for (int n = 0; n < kN; ++n)
      if (kShifts && n < present) shifts[n] = shifts_at(act, n, half);
    Four<uint32_t> scales[kM][kHalves];
    VEERY_UNROLL(4)
    for (int m = 0; m < kM; ++m) load_sub_scales(weights + m * kWeightBytes, half, scales[m]);
    VEERY_UNROLL(4)
    for (int s = 0; s < 4; ++s)
      sub_block<kShifts>(weights, act, half * 4 + s, present, scales, shifts, all);
  }
  template <bool kShifts>
  static VEERY_GPU void sub_block(const uint8_t* weights, const uint8_t* act, int s, int present,
                                  const Four<uint32_t> (&scales)[kM][kHalves],
                                  const Two<uint32_t> (&shifts)[kN], int32_t (&all)[kM][kN][4]) {
    Two<uint32_t> codes[kN] = {};
    if constexpr (kSyncs) sync_warp();
    VEERY_UNROLL(4)
    for (int n = 0; n < kN; ++n)
      if (n < present) codes[n] = load<Two<uint32_t>>(act + n * kGroupBytes + s * 256 + lane() * 8);
    VEERY_UNROLL(4)
    for (int m = 0; m < kM; ++m) {
      uint32_t fragment[4];
      load_fragment<kFormat>(weights + m * kWeightBytes + s * kLayout.fragment, fragment);
      VEERY_UNROLL(2)
      for (int h = 0; h < kHalves; ++h) {
        constexpr int kDefaultShift = kShifts ? 0 : 3;
        const int low = scale_of(scales[m], s % 4, h, false) << kDefaultShift;
        const int high = scale_of(scales[m], s % 4, h, true) << kDefaultShift;
        VEERY_UNROLL(4)
        for (int n = 0; n < kN; ++n) {
          if (n >= present) continue;
          int32_t c[4];
          if constexpr (kHalves == 1)
            mma_m16n8k32_s8_from(c, fragment, codes[n].x, codes[n].y, 0, 0);
          else
            mma_m16n8k16_s8_zero(c, fragment[2 * h], fragment[2 * h + 1],
                                 h == 0 ? codes[n].x : codes[n].y);
          const int first = kShifts ? byte_of(shifts[n].x, s % 4) : 0;
          const int second = kShifts ? byte_of(shifts[n].y, s % 4) : 0;
          all[m][n][0] += c[0] * (low << first), all[m][n][1] += c[1] * (low << second);
          all[m][n][2] += c[2] * (high << first), all[m][n][3] += c[3] * (high << second);
        }
      }
    }
  }
};

}  // namespace veery::gpu
