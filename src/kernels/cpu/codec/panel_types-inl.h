// panel_types-inl.h: decodes the vectors of each packed block type (panels/panels.h) in registers.
#if defined(VEERY_KERNELS_CPU_PANEL_TYPES_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef VEERY_KERNELS_CPU_PANEL_TYPES_INL_H
#undef VEERY_KERNELS_CPU_PANEL_TYPES_INL_H
#else
#define VEERY_KERNELS_CPU_PANEL_TYPES_INL_H
#endif

#include "dtype/code_books.h"
#include "kernels/cpu/codec/panel_kernels.h"
#include "kernels/cpu/simd/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace veery {
namespace HWY_NAMESPACE {

/// Whether the accumulators of two panels and eight rows fit into the registers.
#if HWY_TARGET == HWY_AVX3 || HWY_TARGET == HWY_AVX3_DL
constexpr bool kPairs = true;
#else
constexpr bool kPairs = false;
#endif

/// The number of rows that a microkernel is compiled for; 0: a run-time argument. Targets that keep
/// no accumulators in registers gain nothing from specialised copies.
template <int kRows>
constexpr int kCompiledRows = kInRegisters ? kRows : 0;

HWY_INLINE I32 every_byte(int value) { return set(static_cast<int32_t>(value * 0x01010101)); }
HWY_INLINE I32 quad(const int8_t* p) {
  int32_t v;
  std::memcpy(&v, p, 4);
  return set(v);
}
HWY_INLINE I32 pair(const int16_t* p) {
  int32_t v;
  std::memcpy(&v, p, 4);
  return set(v);
}
/// Prefetches `bytes` bytes from p + ahead on into the L2 cache. The address may be past the end of
/// the weight.
HWY_INLINE void prefetch(const uint8_t* p, int64_t ahead, int bytes) {
  const auto at = reinterpret_cast<uintptr_t>(p) + static_cast<uintptr_t>(ahead);
  for (int i = 0; i < bytes; i += 64)
    __builtin_prefetch(reinterpret_cast<const void*>(at + static_cast<uintptr_t>(i)), 0, 2);
}

/// Whether the zero point kOffset needs no correction by the sum of x: dot4_wide() of a target with
/// kWideIsSigned subtracts 128 itself.
template <int kOffset>
constexpr bool kDotSubtractsOffset = kOffset == 0 || (kOffset == 128 && kWideIsSigned);
template <int kOffset>
HWY_INLINE I32 dot(I32 acc, I32 u, I32 x) {
  if constexpr (kOffset != 128)
    return dot4(acc, u, x);
  else
    return dot4_wide(acc, u, x);
}

/// The values of a code book plus kOffset: 16 bytes, repeated four times for lookup().
struct Book {
  uint8_t table[64];
  float factor;
};
template <DType kType, int kOffset = 128>
constexpr Book kBook = [] {
  constexpr CodeBook kCodes = code_book(kType);
  Book book = {{}, kCodes.factor};
  for (int i = 0; i < 64; ++i)
    book.table[i] = static_cast<uint8_t>(kCodes.values[i % 16] + kOffset);
  return book;
}();

// Moves the bits `mask` << kFrom of each byte to `mask` << kTo and clears all others.
template <int kFrom, int kTo>
HWY_INLINE I32 move_bits(I32 v, int mask) {
  const I32 wanted = every_byte(mask << kTo);
  if constexpr (kFrom < kTo)
    return bit_and(shl16<kTo - kFrom>(v), wanted);
  else if constexpr (kFrom > kTo)
    return bit_and(shr16<kFrom - kTo>(v), wanted);
  else
    return bit_and(v, wanted);
}

// Types with blocks of 32 columns. vectors<J>() decodes vectors J and J + 4 of a block to unsigned
// bytes; a value is byte - kOffset. kScale and kMin: offsets of scales and minima; kMin 0: none.
// kScales: number of scales per block, each for an equal part of it; default 1.

template <int J>
HWY_INLINE void nibbles(const uint8_t* w, I32& low, I32& high) {
  const I32 v = load_int(w + 64 * J);
  low = bit_and(v, every_byte(15));
  high = bit_and(shr16<4>(v), every_byte(15));
}
template <int J>
HWY_INLINE void nibbles_and_fifth(const uint8_t* w, I32& low, I32& high) {
  nibbles<J>(w, low, high);
  const I32 bit = load_int(w + 256);
  low = bit_or(low, bit_and(shl16<4 - J>(bit), every_byte(16)));
  if constexpr (J == 0)
    high = bit_or(high, bit_and(bit, every_byte(16)));
  else
    high = bit_or(high, bit_and(shr16<J>(bit), every_byte(16)));
}

struct PanelQ4_0 {
  static constexpr DType kType = DType::kQ4_0;
  static constexpr int kScale = 256, kMin = 0, kOffset = 8;
  template <int J>
  static HWY_INLINE void vectors(const uint8_t* w, I32& low, I32& high) {
    nibbles<J>(w, low, high);
  }
};
struct PanelQ4_1 {
  static constexpr DType kType = DType::kQ4_1;
  static constexpr int kScale = 256, kMin = 288, kOffset = 0;
  template <int J>
  static HWY_INLINE void vectors(const uint8_t* w, I32& low, I32& high) {
    nibbles<J>(w, low, high);
  }
};
struct PanelQ5_0 {
  static constexpr DType kType = DType::kQ5_0;
  static constexpr int kScale = 320, kMin = 0, kOffset = 16;
  template <int J>
  static HWY_INLINE void vectors(const uint8_t* w, I32& low, I32& high) {
    nibbles_and_fifth<J>(w, low, high);
  }
};
struct PanelQ5_1 {
  static constexpr DType kType = DType::kQ5_1;
  static constexpr int kScale = 320, kMin = 352, kOffset = 0;
  template <int J>
  static HWY_INLINE void vectors(const uint8_t* w, I32& low, I32& high) {
    nibbles_and_fifth<J>(w, low, high);
  }
};
struct PanelQ8_0 {
  static constexpr DType kType = DType::kQ8_0;
  static constexpr int kScale = 512, kMin = 0, kOffset = 128;
  template <int J>
  static HWY_INLINE void vectors(const uint8_t* w, I32& low, I32& high) {
    low = load_int(w + 64 * J);
    high = load_int(w + 64 * (J + 4));
  }
};

/// Decodes nibbles that index a code book.
template <DType kCodes, int J>
HWY_INLINE void coded_nibbles(const uint8_t* w, I32& low, I32& high) {
  const I32 table = load_int(kBook<kCodes>.table);
  nibbles<J>(w, low, high);
  low = lookup(table, low);
  high = lookup(table, high);
}
struct PanelIQ4_NL {
  static constexpr DType kType = DType::kIQ4_NL;
  static constexpr int kScale = 256, kMin = 0, kOffset = 128;
  template <int J>
  static HWY_INLINE void vectors(const uint8_t* w, I32& low, I32& high) {
    coded_nibbles<kType, J>(w, low, high);
  }
};
struct PanelMXFP4 {
  static constexpr DType kType = DType::kMXFP4;
  static constexpr int kScale = 256, kMin = 0, kOffset = 128;
  template <int J>
  static HWY_INLINE void vectors(const uint8_t* w, I32& low, I32& high) {
    coded_nibbles<kType, J>(w, low, high);
  }
  /// half_e8m0_to_f32
  static HWY_INLINE F32 scale(const uint8_t* w) {
    const I32 e = load_u8(w + kScale);
    const F32 normal = as_float(shl<23>(sub(e, set(int32_t{1}))));
    return select(greater(to_float(e), set(1.5F)), normal,
                  as_float(shl(set(int32_t{0x00200000}), bit_and(e, set(int32_t{1})))));
  }
};
/// NVFP4: one scale for each half block; kAbove is the zero point.
template <int kAbove>
struct PanelHalves {
  static constexpr DType kType = DType::kNVFP4;
  static constexpr int kScale = 256, kMin = 0, kOffset = kAbove, kScales = 2;
  template <int J>
  static HWY_INLINE void vectors(const uint8_t* w, I32& low, I32& high) {
    const I32 table = load_int(kBook<kType, kOffset>.table);
    nibbles<J>(w, low, high);
    low = lookup(table, low);
    high = lookup(table, high);
  }
  /// half_e4m3_to_f32, except that 0x7F is not a NaN.
  static HWY_INLINE F32 scale(const uint8_t* w, int half) {
    return mul(as_float(shl<20>(load_u8(w + kScale + 16 * half))), set(kHalfE4M3));
  }
};
using PanelNVFP4 = PanelHalves<16>;
using PanelSignedNVFP4 = PanelHalves<0>;  ///< signed bytes
/// 32 columns of an affine group.
template <int kCodeBits>
struct PanelAffine {
  static constexpr int kBits = kCodeBits, kBytes = 64 * kBits, kOffset = 0;
  static constexpr bool kWide = kBits == 8;
  template <int J>
  static HWY_INLINE void vectors(const uint8_t* w, I32& low, I32& high) {
    if constexpr (kBits == 8) {
      low = load_int(w + 64 * J);
      high = load_int(w + 64 * (J + 4));
    } else if constexpr (kBits >= 4) {
      nibbles<J>(w, low, high);
      if constexpr (kBits == 6) add_two_bits<J, 4>(w + 256, low, high);
    } else {
      low = high = zero_int();
      add_two_bits<J, 0>(w, low, high);
    }
    if constexpr (kBits % 2 == 1) {
      const I32 last = load_int(w + 64 * (kBits - 1));
      low = bit_or(low, move_bits<J, kBits - 1>(last, 1));
      high = bit_or(high, move_bits<J + 4, kBits - 1>(last, 1));
    }
  }

 private:
  template <int J, int kTo>
  static HWY_INLINE void add_two_bits(const uint8_t* w, I32& low, I32& high) {
    const I32 v = load_int(w + 64 * (J / 2));
    low = bit_or(low, move_bits<4 * (J % 2), kTo>(v, 3));
    high = bit_or(high, move_bits<4 * (J % 2) + 2, kTo>(v, 3));
  }
};
// Types with blocks of 256 columns: two halves of four strips of 32 columns. strips<J>() decodes
// vector J of the four strips of half h to unsigned bytes. kSub: columns per sub-scale; kOffset as
// above; kScales, kMins, kD, kDmin: offsets; kDmin 0: no minimum.

template <int S>
HWY_INLINE I32 byte_of(I32 v) {
  if constexpr (S == 3)
    return shr<24>(v);
  else if constexpr (S == 0)
    return bit_and(v, set(int32_t{255}));
  else
    return bit_and(shr<8 * S>(v), set(int32_t{255}));
}
template <int S>
HWY_INLINE I32 signed_byte_of(I32 v) {
  if constexpr (S == 3)
    return sar<24>(v);
  else
    return sar<24>(shl<24 - 8 * S>(v));
}
// Moves bit S (J >= 4: bit S + 4) of each byte to bit kTo and clears all others.
template <int J, int S, int kTo>
HWY_INLINE I32 strip_bit(I32 bits) {
  return move_bits<S + (J >= 4 ? 4 : 0), kTo>(bits, 1);
}
template <int J>
HWY_INLINE void nibble_strips(const uint8_t* w, I32* v) {
  for (int c = 0; c < 2; ++c) {
    const I32 packed = load_int(w + (8 * c + J) * 64);
    v[2 * c] = bit_and(packed, every_byte(15));
    v[2 * c + 1] = bit_and(shr16<4>(packed), every_byte(15));
  }
}
template <int J>
HWY_INLINE void two_bit_strips(const uint8_t* w, I32* v) {
  const I32 packed = load_int(w + J * 64);
  v[0] = bit_and(packed, every_byte(3));
  v[1] = bit_and(shr16<2>(packed), every_byte(3));
  v[2] = bit_and(shr16<4>(packed), every_byte(3));
  v[3] = bit_and(shr16<6>(packed), every_byte(3));
}

/// Sub-scales and minima of Q4_K and Q5_K.
struct UnsignedScales {
  static constexpr int kSub = 32, kOffset = 0;
  template <int S>
  static HWY_INLINE I32 scale(I32 v) {
    return byte_of<S>(v);
  }
  static HWY_INLINE I32 even_mins(I32 v) { return bit_and(v, set(int32_t{0x00ff00ff})); }
  static HWY_INLINE I32 odd_mins(I32 v) { return shr16<8>(v); }
};
struct PanelQ4_K : UnsignedScales {
  static constexpr DType kType = DType::kQ4_K;
  static constexpr int kScales = 2048, kMins = 2176, kD = 2304, kDmin = 2336;
  template <int J>
  static HWY_INLINE void strips(const uint8_t* w, int h, I32* v) {
    nibble_strips<J>(w + 1024 * h, v);
  }
};
struct PanelQ5_K : UnsignedScales {
  static constexpr DType kType = DType::kQ5_K;
  static constexpr int kScales = 2560, kMins = 2688, kD = 2816, kDmin = 2848;
  template <int J>
  static HWY_INLINE void strips(const uint8_t* w, int h, I32* v) {
    nibble_strips<J>(w + 1024 * h, v);
    const I32 bits = load_int(w + 2048 + (4 * h + J % 4) * 64);
    v[0] = bit_or(v[0], strip_bit<J, 0, 4>(bits));
    v[1] = bit_or(v[1], strip_bit<J, 1, 4>(bits));
    v[2] = bit_or(v[2], strip_bit<J, 2, 4>(bits));
    v[3] = bit_or(v[3], strip_bit<J, 3, 4>(bits));
  }
};
/// int8 sub-scales of Q3_K and Q6_K. These types have no minima; the scales serve as minima to
/// correct for the zero point kOffset.
struct SignedScales {
  static constexpr int kSub = 16, kDmin = 0;
  template <int S>
  static HWY_INLINE I32 scale(I32 v) {
    return signed_byte_of<S>(v);
  }
  static HWY_INLINE I32 even_mins(I32 v) { return sar16<8>(shl16<8>(v)); }
  static HWY_INLINE I32 odd_mins(I32 v) { return sar16<8>(v); }
};
struct PanelQ6_K : SignedScales {
  static constexpr DType kType = DType::kQ6_K;
  static constexpr int kScales = 3072, kMins = kScales, kD = 3328, kOffset = 32;
  template <int J>
  static HWY_INLINE void strips(const uint8_t* w, int h, I32* v) {
    I32 low[4];
    nibble_strips<J>(w + 1024 * h, low);
    const I32 high = load_int(w + 2048 + (8 * h + J) * 64);
    const I32 mask = every_byte(0x30);
    v[0] = bit_or(low[0], bit_and(shl16<4>(high), mask));
    v[1] = bit_or(low[2], bit_and(shl16<2>(high), mask));
    v[2] = bit_or(low[1], bit_and(high, mask));
    v[3] = bit_or(low[3], bit_and(shr16<2>(high), mask));
  }
};
struct PanelQ3_K : SignedScales {
  static constexpr DType kType = DType::kQ3_K;
  static constexpr int kScales = 1536, kMins = kScales, kD = 1792, kOffset = 4;
  template <int J>
  static HWY_INLINE void strips(const uint8_t* w, int h, I32* v) {
    two_bit_strips<J>(w + 512 * h, v);
    const I32 bits = load_int(w + 1024 + (4 * h + J % 4) * 64);
    v[0] = bit_or(v[0], strip_bit<J, 0, 2>(bits));
    v[1] = bit_or(v[1], strip_bit<J, 1, 2>(bits));
    v[2] = bit_or(v[2], strip_bit<J, 2, 2>(bits));
    v[3] = bit_or(v[3], strip_bit<J, 3, 2>(bits));
  }
};
struct PanelQ2_K {
  static constexpr DType kType = DType::kQ2_K;
  static constexpr int kSub = 16, kOffset = 0;
  static constexpr int kScales = 1024, kMins = kScales, kD = 1280, kDmin = 1312;
  template <int J>
  static HWY_INLINE void strips(const uint8_t* w, int h, I32* v) {
    two_bit_strips<J>(w + 512 * h, v);
  }
  template <int S>
  static HWY_INLINE I32 scale(I32 v) {
    return bit_and(shr<8 * S>(v), set(int32_t{15}));
  }
  static HWY_INLINE I32 even_mins(I32 v) { return bit_and(shr16<4>(v), set(int32_t{0x000f000f})); }
  static HWY_INLINE I32 odd_mins(I32 v) { return shr16<12>(v); }
};

/// Types without sub-scales.
struct NoScales {
  static constexpr int kSub = 32, kDmin = 0, kScales = 0, kMins = 0, kOffset = 128;
  template <int S>
  static HWY_INLINE I32 scale(I32) {
    return set(int32_t{1});
  }
  static HWY_INLINE I32 even_mins(I32) { return set(int32_t{0x00010001}); }
  static HWY_INLINE I32 odd_mins(I32) { return set(int32_t{0x00010001}); }
};
struct PanelQ8_K : NoScales {
  static constexpr DType kType = DType::kQ8_K;
  template <int J>
  static HWY_INLINE void strips(const uint8_t* w, int h, I32* v) {
    for (int s = 0; s < 4; ++s) v[s] = load_int(w + ((h * 4 + s) * 8 + J) * 64);
  }
  static HWY_INLINE F32 d(const uint8_t* w) {
    return load(reinterpret_cast<const float*>(w + 4096));
  }
};

/// Types whose codes index a code book. Several types share a layout; kType is one of them.
struct Coded {
  HWY_INLINE void values(I32* v) const {
    for (int s = 0; s < 4; ++s) v[s] = lookup(table, v[s]);
  }
  I32 table;
  F32 factor;
};
template <typename T>
HWY_INLINE T with_book(const Book& book) {
  T type;
  type.table = load_int(book.table);
  type.factor = set(book.factor);
  return type;
}
struct PanelCodes4 : Coded, SignedScales {
  static constexpr DType kType = DType::kIQ4_XS;
  static constexpr int kSub = 32, kScales = 2048, kMins = kScales, kD = 2176, kOffset = 128;
  template <int J>
  HWY_INLINE void strips(const uint8_t* w, int h, I32* v) const {
    nibble_strips<J>(w + 1024 * h, v);
    values(v);
  }
  HWY_INLINE F32 d(const uint8_t* w) const { return mul(load_f16(w + kD), factor); }
};
template <int kSubElements>
struct PanelCodes3 : Coded, SignedScales {
  static constexpr DType kType = kSubElements == 32 ? DType::kIQ2_XXS : DType::kIQ2_XS;
  static constexpr int kSub = kSubElements, kScales = 1536, kMins = kScales, kOffset = 128;
  static constexpr int kD = kScales + 4096 / kSub;
  template <int J>
  HWY_INLINE void strips(const uint8_t* w, int h, I32* v) const {
    PanelQ3_K::strips<J>(w, h, v);
    values(v);
  }
  HWY_INLINE F32 d(const uint8_t* w) const { return mul(load_f16(w + kD), factor); }
};
struct PanelCodes2 : Coded, NoScales {
  static constexpr DType kType = DType::kTQ2_0;
  template <int J>
  HWY_INLINE void strips(const uint8_t* w, int h, I32* v) const {
    two_bit_strips<J>(w + 512 * h, v);
    values(v);
  }
  HWY_INLINE F32 d(const uint8_t* w) const { return load_f16(w + 1024); }
};

/// Returns d of a block of 256.
template <typename T>
HWY_INLINE F32 d_of(const T& t, const uint8_t* w) {
  if constexpr (requires { t.d(w); })
    return t.d(w);
  else
    return load_f16(w + T::kD);
}

}  // namespace HWY_NAMESPACE
}  // namespace veery
HWY_AFTER_NAMESPACE();

#endif  // VEERY_KERNELS_CPU_PANEL_TYPES_INL_H
