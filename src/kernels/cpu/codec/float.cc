// f32 microkernels for F32, F16, MXFP8, FP8, and (exact kernels) for quantised panels expanded to
// f32. Accumulation order: linear.h.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/codec/float.cc"
#include "kernels/cpu/simd/foreach_f32_target.h"
//
#include "dtype/fp8.h"
#include "kernels/cpu/codec/float-inl.h"
#include "kernels/cpu/codec/panel_layout-inl.h"

HWY_BEFORE_NAMESPACE();
namespace veery {
namespace HWY_NAMESPACE {
namespace {

// Decoding e4m3: shifted right by 4 with sign extension and masked, a byte becomes the bf16 with
// the same sign, exponent field and fraction, too small by a constant factor. The scale includes
// that factor. Two columns are decoded at once, as the halves of a 32-bit lane.
struct Fp8Vector {
  I32 even, odd;
};
struct PanelE4M3 : FloatDefaults {
  static constexpr int kStep = 4, kTerms = 4;
  static HWY_INLINE Fp8Vector vector(const uint8_t* w) {
    const I32 mask = set(static_cast<int32_t>(0x87F087F0));
    const I32 v = load_int(w);
    return {bit_and(sar16<4>(shl16<8>(v)), mask), bit_and(sar16<4>(v), mask)};
  }
  template <int i>
  static HWY_INLINE F32 value(const Fp8Vector& v, F32 scale) {
    const I32 both = i % 2 == 0 ? v.even : v.odd;
    if constexpr (i < 2)
      return mul(as_float(shl<16>(both)), scale);
    else
      return mul(as_float(bit_and(both, set(static_cast<int32_t>(0xFFFF0000)))), scale);
  }
};
struct PanelMXFP8 : PanelE4M3 {
  static constexpr int kBlock = 32, kUnit = panel_format(DType::kMXFP8).unit;
  static HWY_INLINE F32 scale(const uint8_t* w) {
    return as_float(shl<23>(add(load_u8(w + 16 * kBlock), set(int32_t{120}))));
  }
};
template <int kElements>
struct PanelFP8 : PanelE4M3 {
  static constexpr int kBlock = kElements, kUnit = 16 * sizeof(BlockFP8<kElements>);
  static HWY_INLINE F32 scale(const uint8_t* w) {
    return mul(load(reinterpret_cast<const float*>(w + 16 * kBlock)), set(kE4M3));
  }
};

int64_t f32_bytes(int64_t cols) { return cols * 64; }

template <typename T>
void expand_floats(const std::byte* const* panel, int64_t cols, std::byte* expanded) {
  const uint8_t* w = bytes_of(*panel);
  auto* out = reinterpret_cast<float*>(expanded);
  for (int64_t b = 0; b < cols / T::kBlock; ++b, w += T::kUnit) {
    const F32 scale = T::scale(w);
    for (int j = 0; j < T::kBlock / T::kStep; ++j, out += 16 * T::kStep) {
      const auto v = T::vector(w + 64 * j);
      unroll<T::kStep>([&](auto i) { store(out + 16 * i(), T::template value<i()>(v, scale)); });
    }
  }
}

// Stores the four columns of a vector of codes as scaled f32, [k][16].
template <bool kMin>
HWY_INLINE void store_values(I32 codes, int offset, F32 scale, F32 shift, float* out) {
  unroll<4>([&](auto i) {
    const I32 code = sub(byte_of<i()>(codes), set(int32_t{offset}));
    const F32 v = mul(scale, to_float(code));
    store(out + 16 * i(), kMin ? add(v, shift) : v);
  });
}

// The expand functions below store codes to memory and reload them in a loop, so that the
// conversion is compiled once and not for each of the unrolled vectors.

// Expands blocks of 32.
template <typename T, typename PanelLayout>
HWY_INLINE void expand_panel(const PanelLayout& at, typename PanelLayout::Panel w, int64_t cols,
                             std::byte* expanded) {
  constexpr int kVectors = 8 / PanelLayout::kScales;
  auto* out = reinterpret_cast<float*>(expanded);
  for (int64_t k = 0; k < cols; k += 32 * at.blocks, w = at.next(w)) {
    F32 bias = zero();
    if constexpr (PanelLayout::kBias) bias = at.bias(w, 0);
    for (int i = 0; i < at.blocks; ++i) {
      alignas(64) int32_t codes[8][16];
      unroll<4>([&](auto j) {
        I32 low;
        I32 high;
        T::template vectors<j()>(at.block(w, i), low, high);
        store_int(codes[j()], low);
        store_int(codes[j() + 4], high);
      });
      for (int part = 0; part < PanelLayout::kScales; ++part) {
        const F32 scale = at.scale(w, 0, part);
        for (int j = part * kVectors; j < (part + 1) * kVectors; ++j, out += 64)
          store_values<PanelLayout::kBias>(load_int(codes[j]), T::kOffset, scale, bias, out);
      }
    }
  }
}
template <typename T>
void expand_blocks(const std::byte* const* panel, int64_t cols, std::byte* expanded) {
  expand_panel<T>(BlockLayout<T>(), bytes_of(*panel), cols, expanded);
}
void expand_split(const std::byte* const* parts, int64_t cols, std::byte* expanded) {
  using PanelLayout = SplitLayout<3>;
  expand_panel<PanelSplitQ8_0>(PanelLayout(), PanelLayout::open(parts), cols, expanded);
}
template <typename T>
HWY_NOINLINE void expand_groups(const AffineFormat& format, const uint8_t* panel, int64_t cols,
                                std::byte* expanded) {
  expand_panel<T>(AffineLayout(format), panel, cols, expanded);
}
template <DType kType>
void expand_affine(const std::byte* const* panel, int64_t cols, std::byte* expanded) {
  constexpr AffineFormat kFormat = affine_format(kType);
  expand_groups<PanelAffine<kFormat.bits>>(kFormat, bytes_of(*panel), cols, expanded);
}

// Expands blocks of 256.
template <typename T>
HWY_INLINE void expand_super(const T& type, const std::byte* panel, int64_t cols,
                             std::byte* expanded) {
  constexpr int kParts = 32 / T::kSub;
  constexpr int kVectors = T::kSub / 4;
  const auto* w = reinterpret_cast<const uint8_t*>(panel);
  auto* out = reinterpret_cast<float*>(expanded);
  for (int64_t b = 0; b < cols / 256; ++b) {
    const F32 d = d_of(type, w);
    const F32 dmin = T::kDmin != 0 ? load_f16(w + T::kDmin) : zero();
    for (int h = 0; h < 2; ++h, out += 128 * 16) {
      alignas(64) int32_t codes[4][8][16];
      unroll<8>([&](auto j) {
        I32 v[4];
        type.template strips<j()>(w, h, v);
        for (int s = 0; s < 4; ++s) store_int(codes[s][j()], v[s]);
      });
      for (int part = 0; part < kParts; ++part) {
        const int slot = h * kParts + part;
        const I32 scales = load_int(w + T::kScales + 64 * slot);
        const I32 mins = load_int(w + T::kMins + 64 * slot);
        unroll<4>([&](auto s) {
          const F32 scale = mul(d, to_float(T::template scale<s()>(scales)));
          const I32 two = s() % 2 == 0 ? T::even_mins(mins) : T::odd_mins(mins);
          const I32 min = s() < 2 ? bit_and(two, set(int32_t{0xffff})) : shr<16>(two);
          const F32 shift = neg(mul(dmin, to_float(min)));
          for (int j = part * kVectors; j < (part + 1) * kVectors; ++j)
            store_values<T::kDmin != 0>(load_int(codes[s()][j]), T::kOffset, scale, shift,
                                        out + (s() * 8 + j) * 64);
        });
      }
    }
    w += panel_format(T::kType).unit;
  }
}

template <typename T>
void expand_one(const std::byte* const* panel, int64_t cols, std::byte* expanded) {
  expand_super(T(), *panel, cols, expanded);
}
// Types that differ only in their code book share this instantiation.
template <typename T>
HWY_NOINLINE void expand_shared(const Book& book, const std::byte* panel, int64_t cols,
                                std::byte* expanded) {
  expand_super(with_book<T>(book), panel, cols, expanded);
}
template <typename T, DType kType>
void expand_coded(const std::byte* const* panel, int64_t cols, std::byte* expanded) {
  expand_shared<T>(kBook<kType>, *panel, cols, expanded);
}

constexpr PanelKernels expanding(ExpandFn expand) {
  PanelKernels k = kernels<PanelFloat<DType::kF32>>();
  k.direct_expanded = true;
  k.expand = expand;
  k.expanded_bytes = f32_bytes;
  return k;
}
// FP8 panels are expanded only for full groups.
template <typename T>
constexpr PanelKernels fp8_kernels() {
  PanelKernels k = few_rows<T>();
  k.expand = expand_floats<T>;
  k.expanded_bytes = f32_bytes;
  set_tiles<PanelFloat<DType::kF32>>(k);
  k.direct[2][0] = multiply_all<T, 4, 1>;
  if (!kPairs) return k;
  k.direct[2][1] = multiply_all<T, 4, 2>;
  k.direct[0][3] = multiply_all<T, 1, kGroupRows>;
  k.direct[1][3] = multiply_all<T, 2, kGroupRows>;
  return k;
}

template <int... kIndex>
constexpr AffineTable affine_table(std::integer_sequence<int, kIndex...>) {
  return {{expanding(expand_affine<affine_at(kIndex)>)...}};
}

}  // namespace

extern const PanelKernels kFloatKernels[5];
constexpr PanelKernels kFloatKernels[5] = {
    kernels<PanelFloat<DType::kF32>>(), kernels<PanelFloat<DType::kF16>>(),
    fp8_kernels<PanelMXFP8>(), fp8_kernels<PanelFP8<32>>(), fp8_kernels<PanelFP8<128>>()};
extern const AffineTable kExactAffine;
constexpr AffineTable kExactAffine = affine_table(std::make_integer_sequence<int, kAffineTypes>());
extern const PanelKernels kExactKernels[24];
constexpr PanelKernels kExactKernels[24] = {
    expanding(expand_blocks<PanelQ4_0>),
    expanding(expand_blocks<PanelQ4_1>),
    expanding(expand_blocks<PanelQ5_0>),
    expanding(expand_blocks<PanelQ5_1>),
    expanding(expand_blocks<PanelQ8_0>),
    expanding(expand_one<PanelQ2_K>),
    expanding(expand_one<PanelQ3_K>),
    expanding(expand_one<PanelQ4_K>),
    expanding(expand_one<PanelQ5_K>),
    expanding(expand_one<PanelQ6_K>),
    expanding(expand_one<PanelQ8_K>),
    expanding(expand_blocks<PanelIQ4_NL>),
    expanding(expand_blocks<PanelMXFP4>),
    expanding(expand_coded<PanelCodes4, DType::kIQ4_XS>),
    expanding(expand_coded<PanelCodes4, DType::kIQ3_XXS>),
    expanding(expand_coded<PanelCodes4, DType::kIQ3_S>),
    expanding(expand_coded<PanelCodes3<32>, DType::kIQ2_XXS>),
    expanding(expand_coded<PanelCodes3<32>, DType::kIQ1_S>),
    expanding(expand_coded<PanelCodes3<16>, DType::kIQ2_XS>),
    expanding(expand_coded<PanelCodes3<16>, DType::kIQ2_S>),
    expanding(expand_coded<PanelCodes3<16>, DType::kIQ1_M>),
    expanding(expand_coded<PanelCodes2, DType::kTQ1_0>),
    expanding(expand_coded<PanelCodes2, DType::kTQ2_0>),
    expanding(expand_blocks<PanelNVFP4>)};
extern const PanelKernels kExactSplit;
constexpr PanelKernels kExactSplit = [] {
  PanelKernels k = expanding(expand_split);
  k.parts = kMostParts;
  return k;
}();

}  // namespace HWY_NAMESPACE
}  // namespace veery
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace veery {

const PanelKernels* float_kernels(Target target, DType type) {
  const PanelKernels* table = VEERY_FOR_F32_TARGET(target, kFloatKernels);
  switch (type) {
    case DType::kF32: return table;
    case DType::kF16: return table + 1;
    case DType::kMXFP8: return table + 2;
    case DType::kFP8_32: return table + 3;
    case DType::kFP8_128: return table + 4;
    default: return nullptr;
  }
}

const PanelKernels* exact_split_kernels(Target target) {
  return &VEERY_FOR_F32_TARGET(target, kExactSplit);
}

const PanelKernels* exact_kernels(Target target, DType type) {
  const PanelKernels* table = VEERY_FOR_F32_TARGET(target, kExactKernels);
  switch (type) {
    case DType::kQ4_0: return table;
    case DType::kQ4_1: return table + 1;
    case DType::kQ5_0: return table + 2;
    case DType::kQ5_1: return table + 3;
    case DType::kQ8_0: return table + 4;
    case DType::kQ2_K: return table + 5;
    case DType::kQ3_K: return table + 6;
    case DType::kQ4_K: return table + 7;
    case DType::kQ5_K: return table + 8;
    case DType::kQ6_K: return table + 9;
    case DType::kQ8_K: return table + 10;
    case DType::kIQ4_NL: return table + 11;
    case DType::kMXFP4: return table + 12;
    case DType::kIQ4_XS: return table + 13;
    case DType::kIQ3_XXS: return table + 14;
    case DType::kIQ3_S: return table + 15;
    case DType::kIQ2_XXS: return table + 16;
    case DType::kIQ1_S: return table + 17;
    case DType::kIQ2_XS: return table + 18;
    case DType::kIQ2_S: return table + 19;
    case DType::kIQ1_M: return table + 20;
    case DType::kTQ1_0: return table + 21;
    case DType::kTQ2_0: return table + 22;
    case DType::kNVFP4: return table + 23;
    default: break;
  }
  if (type == DType::kBF16) return bf16_kernels(target, /*exact=*/true);
  return is_affine(type) ? &VEERY_FOR_F32_TARGET(target, kExactAffine).at(type)
                         : float_kernels(target, type);
}

}  // namespace veery
#endif
