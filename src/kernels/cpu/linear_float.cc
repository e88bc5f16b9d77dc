// Panels of F32, F16 and BF16, and quantised panels expanded to f32. Contract: linear.h.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/linear_float.cc"
#include "kernels/cpu/foreach_target.h"
//
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
    for (int r = 0; r < R; ++r) store(y + (p * R + r) * 16, acc[p][r]);
}
template <DType kType, int R>
void direct(const std::byte* panel, const ActivationGroup& g, int64_t cols, int64_t ahead,
            float* y) {
  multiply<kType, 1, R>({reinterpret_cast<const uint8_t*>(panel)}, g, cols, ahead, y);
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

}  // namespace

extern const PanelKernels kFloatKernels[3];
constexpr PanelKernels kFloatKernels[3] = {kernels<DType::kF32>(), kernels<DType::kF16>(),
                                           kernels<DType::kBF16>()};
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
    default: return float_kernels(target, type);
  }
}

}  // namespace veery
#endif
