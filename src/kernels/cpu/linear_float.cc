// Panels of F32, F16, BF16, MXFP8 and FP8, and quantised panels expanded to f32. Contract:
// linear.h.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/linear_float.cc"
#include "kernels/cpu/foreach_target.h"
//
#include "dtype/fp8.h"
#include "kernels/cpu/panel_types-inl.h"

HWY_BEFORE_NAMESPACE();
namespace veery {
namespace HWY_NAMESPACE {
namespace {

template <DType kType>
HWY_INLINE F32 load_weights(const uint8_t* p) {
  if constexpr (kType == DType::kF16)
    return load_f16(p);
  else if constexpr (kType == DType::kBF16)
    return load_bf16(p);
  else
    return load(reinterpret_cast<const float*>(p));
}

template <DType kType, int P, int R>
HWY_INLINE void multiply(const uint8_t* const (&panel)[P], const ActivationGroup& g, int64_t cols,
                         int64_t ahead, float* y) {
  constexpr int kUnit = panel_format(kType).unit;
  F32 acc[P][R];
  for (int p = 0; p < P; ++p)
    for (int r = 0; r < R; ++r) acc[p][r] = zero();
  for (int64_t k = 0; k < cols; ++k) {
    F32 v[P];
    for (int p = 0; p < P; ++p) {
      if (ahead != 0 && k % (64 / kUnit) == 0) prefetch(panel[p] + k * kUnit, ahead, 64);
      v[p] = load_weights<kType>(panel[p] + k * kUnit);
    }
    for (int r = 0; r < R; ++r) {
      const F32 x = set(g.values[k * R + r]);
      for (int p = 0; p < P; ++p) acc[p][r] = fma(x, v[p], acc[p][r]);
    }
  }
  for (int p = 0; p < P; ++p)
    for (int r = 0; r < R; ++r) store(y + (p * kGroupRows + r) * 16, acc[p][r]);
}
template <DType kType, int R>
void direct(const std::byte* panel, const ActivationGroup& g, int64_t cols, int64_t ahead,
            float* y) {
  multiply<kType, 1, R>({reinterpret_cast<const uint8_t*>(panel)}, g, cols, ahead, y);
}
template <DType kType, int R>
void direct_pair(const std::byte* first, const std::byte* second, const ActivationGroup& g,
                 int64_t cols, int64_t ahead, float* y) {
  multiply<kType, 2, R>(
      {reinterpret_cast<const uint8_t*>(first), reinterpret_cast<const uint8_t*>(second)}, g, cols,
      ahead, y);
}
template <DType kType>
void tile(const std::byte* panel, const ActivationGroup& g, int64_t cols, float* y) {
  multiply<kType, 1, kGroupRows>({reinterpret_cast<const uint8_t*>(panel)}, g, cols, 0, y);
}
template <DType kType>
void tile_pair(const std::byte* first, const std::byte* second, const ActivationGroup& g,
               int64_t cols, Share, float* y) {
  multiply<kType, 2, kGroupRows>(
      {reinterpret_cast<const uint8_t*>(first), reinterpret_cast<const uint8_t*>(second)}, g, cols,
      0, y);
}

// FP8: byte i of a vector to f32. Scales have the factor that lifts the exponents.
template <int i>
HWY_INLINE F32 fp8_value(I32 v, F32 scale) {
  I32 top = v;
  if constexpr (i < 3) top = shl<24 - 8 * i>(v);
  const I32 sign_and_rest = set(static_cast<int32_t>(0x87F00000));
  return mul(as_float(bit_and(sar<4>(top), sign_and_rest)), scale);
}
struct PanelMXFP8 {
  static constexpr int kBlock = 32, kUnit = panel_format(DType::kMXFP8).unit;
  static HWY_INLINE F32 scale(const uint8_t* w) {
    return as_float(shl<23>(add(load_u8(w + 16 * kBlock), set(int32_t{120}))));
  }
};
template <int kElements>
struct PanelFP8 {
  static constexpr int kBlock = kElements, kUnit = 16 * sizeof(BlockFP8<kElements>);
  static HWY_INLINE F32 scale(const uint8_t* w) {
    return mul(load(reinterpret_cast<const float*>(w + 16 * kBlock)), set(kE4M3));
  }
};
template <typename T, int P, int R>
HWY_INLINE void multiply_fp8(const uint8_t* const (&panel)[P], const ActivationGroup& g,
                             int64_t cols, int64_t ahead, float* y) {
  F32 acc[P][R];
  for (int p = 0; p < P; ++p)
    for (int r = 0; r < R; ++r) acc[p][r] = zero();
  const float* x = g.values;
  for (int64_t b = 0; b < cols / T::kBlock; ++b) {
    F32 scale[P];
    for (int p = 0; p < P; ++p) {
      if (ahead != 0) prefetch(panel[p] + b * T::kUnit, ahead, T::kUnit);
      scale[p] = T::scale(panel[p] + b * T::kUnit);
    }
    for (int j = 0; j < T::kBlock / 4; ++j) {
      I32 v[P];
      for (int p = 0; p < P; ++p) v[p] = load_int(panel[p] + b * T::kUnit + 64 * j);
      unroll<4>([&](auto i) {
        F32 w[P];
        for (int p = 0; p < P; ++p) w[p] = fp8_value<i()>(v[p], scale[p]);
        for (int r = 0; r < R; ++r) {
          const F32 of_row = set(x[i() * R + r]);
          for (int p = 0; p < P; ++p) acc[p][r] = fma(of_row, w[p], acc[p][r]);
        }
      });
      x += 4 * R;
    }
  }
  for (int p = 0; p < P; ++p)
    for (int r = 0; r < R; ++r) store(y + (p * kGroupRows + r) * 16, acc[p][r]);
}
template <typename T, int R>
void direct_fp8(const std::byte* panel, const ActivationGroup& g, int64_t cols, int64_t ahead,
                float* y) {
  multiply_fp8<T, 1, R>({reinterpret_cast<const uint8_t*>(panel)}, g, cols, ahead, y);
}
template <typename T, int R>
void direct_pair_fp8(const std::byte* first, const std::byte* second, const ActivationGroup& g,
                     int64_t cols, int64_t ahead, float* y) {
  multiply_fp8<T, 2, R>(
      {reinterpret_cast<const uint8_t*>(first), reinterpret_cast<const uint8_t*>(second)}, g, cols,
      ahead, y);
}
template <typename T>
void expand_fp8(const std::byte* panel, int64_t cols, std::byte* expanded) {
  const auto* w = reinterpret_cast<const uint8_t*>(panel);
  auto* out = reinterpret_cast<float*>(expanded);
  for (int64_t b = 0; b < cols / T::kBlock; ++b, w += T::kUnit) {
    const F32 scale = T::scale(w);
    for (int j = 0; j < T::kBlock / 4; ++j, out += 64) {
      const I32 v = load_int(w + 64 * j);
      unroll<4>([&](auto i) { store(out + 16 * i(), fp8_value<i()>(v, scale)); });
    }
  }
}

// The four k of a vector of codes to f32, scaled, [k][16].
template <bool kMin>
HWY_INLINE void store_values(I32 codes, int offset, F32 scale, F32 shift, float* out) {
  unroll<4>([&](auto i) {
    const I32 code = sub(byte_of<i()>(codes), set(int32_t{offset}));
    const F32 v = mul(scale, to_float(code));
    store(out + 16 * i(), kMin ? add(v, shift) : v);
  });
}

int64_t f32_bytes(int64_t cols) { return cols * 64; }

template <typename T>
void expand_blocks(const std::byte* panel, int64_t cols, std::byte* expanded) {
  const auto* w = reinterpret_cast<const uint8_t*>(panel);
  auto* out = reinterpret_cast<float*>(expanded);
  for (int64_t b = 0; b < cols / 32; ++b) {
    const F32 scale = scale_of<T>(w);
    const F32 shift = T::kMin != 0 ? load_f16(w + T::kMin) : zero();
    alignas(64) int32_t codes[8][16];
    unroll<4>([&](auto j) {
      I32 low;
      I32 high;
      T::template vectors<j()>(w, low, high);
      store_int(codes[j()], low);
      store_int(codes[j() + 4], high);
    });
    for (int j = 0; j < 8; ++j, out += 64)
      store_values<T::kMin != 0>(load_int(codes[j]), T::kOffset, scale, shift, out);
    w += panel_format(T::kType).unit;
  }
}

// The codes pass through memory, so that what follows is compiled once and not for each vector.
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

void expand_halves(const std::byte* panel, int64_t cols, std::byte* expanded) {
  const auto* w = reinterpret_cast<const uint8_t*>(panel);
  auto* out = reinterpret_cast<float*>(expanded);
  for (int64_t b = 0; b < cols / 32; ++b, w += PanelNVFP4::kUnit)
    for (int j = 0; j < 8; ++j, out += 64) {
      const I32 v = PanelNVFP4::vector(w, j);
      const F32 scale = PanelNVFP4::scale(w, j / 4);
      unroll<4>(
          [&](auto i) { store(out + 16 * i(), mul(scale, to_float(signed_byte_of<i()>(v)))); });
    }
}

template <typename T>
HWY_NOINLINE void expand_groups(const AffineFormat& format, const std::byte* panel, int64_t cols,
                                std::byte* expanded) {
  const AffinePlaces at(format);
  const auto* w = reinterpret_cast<const uint8_t*>(panel);
  auto* out = reinterpret_cast<float*>(expanded);
  for (int64_t k = 0; k < cols; k += format.group, w += at.unit) {
    const F32 scale = at.scale(w, 0);
    const F32 bias = at.bias(w, 0);
    for (int i = 0; i < at.blocks; ++i) {
      alignas(64) int32_t codes[8][16];
      unroll<4>([&](auto j) {
        I32 low;
        I32 high;
        T::template vectors<j()>(w + i * T::kBytes, low, high);
        store_int(codes[j()], low);
        store_int(codes[j() + 4], high);
      });
      for (int j = 0; j < 8; ++j, out += 64)
        store_values<true>(load_int(codes[j]), 0, scale, bias, out);
    }
  }
}
template <DType kType>
void expand_affine(const std::byte* panel, int64_t cols, std::byte* expanded) {
  constexpr AffineFormat kFormat = affine_format(kType);
  expand_groups<PanelAffine<kFormat.bits>>(kFormat, panel, cols, expanded);
}

template <typename T>
void expand_one(const std::byte* panel, int64_t cols, std::byte* expanded) {
  expand_super(T(), panel, cols, expanded);
}
// Types that differ in their code book only share the code.
template <typename T>
HWY_NOINLINE void expand_shared(const Book& book, const std::byte* panel, int64_t cols,
                                std::byte* expanded) {
  expand_super(with_book<T>(book), panel, cols, expanded);
}
template <typename T, DType kType>
void expand_coded(const std::byte* panel, int64_t cols, std::byte* expanded) {
  expand_shared<T>(kBook<kType>, panel, cols, expanded);
}

template <DType kType>
constexpr PanelKernels kernels() {
  PanelKernels k;
  k.direct[0] = direct<kType, 1>;
  k.direct[1] = direct<kType, 2>;
  k.direct[2] = direct<kType, 4>;
  k.direct_pair[0] = direct_pair<kType, 1>;
  k.direct_pair[1] = direct_pair<kType, 2>;
  if (kPairs) k.direct_pair[2] = direct_pair<kType, 4>;
  k.tile = tile<kType>;
  if (kPairs) k.pair = tile_pair<kType>;
  return k;
}

constexpr PanelKernels expanding(ExpandFn expand) {
  PanelKernels k = kernels<DType::kF32>();
  k.direct_expanded = true;
  k.expand = expand;
  k.expanded_bytes = f32_bytes;
  return k;
}

template <typename T>
constexpr PanelKernels fp8_kernels() {
  PanelKernels k = expanding(expand_fp8<T>);
  k.direct_expanded = false;
  k.direct[0] = direct_fp8<T, 1>;
  k.direct[1] = direct_fp8<T, 2>;
  k.direct[2] = direct_fp8<T, 4>;
  k.direct_pair[0] = direct_pair_fp8<T, 1>;
  k.direct_pair[1] = direct_pair_fp8<T, 2>;
  k.direct_pair[2] = kPairs ? direct_pair_fp8<T, 4> : nullptr;
  return k;
}

template <int... kIndex>
constexpr AffineTable affine_table(std::integer_sequence<int, kIndex...>) {
  return {{expanding(expand_affine<affine_at(kIndex)>)...}};
}

}  // namespace

extern const PanelKernels kFloatKernels[6];
constexpr PanelKernels kFloatKernels[6] = {
    kernels<DType::kF32>(),    kernels<DType::kF16>(),      kernels<DType::kBF16>(),
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
    expanding(expand_halves)};

}  // namespace HWY_NAMESPACE
}  // namespace veery
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace veery {

const PanelKernels* float_kernels(Target target, DType type) {
  const PanelKernels* table = VEERY_FOR_TARGET(target, kFloatKernels);
  switch (type) {
    case DType::kF32: return table;
    case DType::kF16: return table + 1;
    case DType::kBF16: return table + 2;
    case DType::kMXFP8: return table + 3;
    case DType::kFP8_32: return table + 4;
    case DType::kFP8_128: return table + 5;
    default: return nullptr;
  }
}

const PanelKernels* exact_kernels(Target target, DType type) {
  const PanelKernels* table = VEERY_FOR_TARGET(target, kExactKernels);
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
  return is_affine(type) ? &VEERY_FOR_TARGET(target, kExactAffine).at(type)
                         : float_kernels(target, type);
}

}  // namespace veery
#endif
