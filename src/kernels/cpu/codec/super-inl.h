// super-inl.h: int8 microkernels for blocks of 256 columns: K types and types with code books.
// Accumulation order: linear.h. Several source files instantiate it, so that each compiles in
// seconds.
#if defined(VEERY_KERNELS_CPU_CODEC_SUPER_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef VEERY_KERNELS_CPU_CODEC_SUPER_INL_H
#undef VEERY_KERNELS_CPU_CODEC_SUPER_INL_H
#else
#define VEERY_KERNELS_CPU_CODEC_SUPER_INL_H
#endif

#include "kernels/cpu/codec/panel_types-inl.h"

HWY_BEFORE_NAMESPACE();
namespace veery {
namespace HWY_NAMESPACE {
namespace {

/// Returns the sums of the activations of block b, for sub-blocks of kSub columns.
template <int kSub>
HWY_INLINE const int16_t* sums_of(const ActivationGroup& g, int64_t b, int rows) {
  return kSub == 16 ? g.sums + b * 16 * rows : g.sums32 + b * 8 * rows;
}

// part_dots() is inlined with 512-bit vectors only. With shorter vectors a fully inlined block is
// too large: compiling it takes minutes. The call costs nothing, because the accumulators do not
// fit into 16 registers in either case.
#undef VEERY_PART_INLINE
#if HWY_TARGET == HWY_AVX2 || HWY_TARGET == HWY_SSE4 || HWY_TARGET == HWY_NEON || \
    HWY_TARGET == HWY_SVE
#define VEERY_PART_INLINE HWY_NOINLINE
#else
#define VEERY_PART_INLINE HWY_INLINE
#endif

// Computes c[strip][row], the dot products of part kPart (kSub columns) of the four strips of half
// h. `rows` is kRows, or row_count if kRows is 0.
template <int kPart, int kRows, int kMost, typename T>
VEERY_PART_INLINE void part_dots(const T& t, const uint8_t* w, int h, const int8_t* q,
                                 int row_count, I32 (&c)[4][kMost]) {
  const int rows = kRows != 0 ? kRows : row_count;
  for (int s = 0; s < 4; ++s)
    for (int r = 0; r < rows; ++r) c[s][r] = zero_int();
  unroll<T::kSub / 4>([&](auto i) {
    constexpr int kJ = kPart * 4 + i();
    I32 v[4];
    t.template strips<kJ>(w, h, v);
    for (int s = 0; s < 4; ++s)
      for (int r = 0; r < rows; ++r)
        c[s][r] = dot<T::kOffset>(c[s][r], v[s], quad(q + ((8 * s + kJ) * rows + r) * 4));
  });
}

// The direct microkernel: one group of rows times one packed panel, decoded in registers.
struct Direct {
  const std::byte* panel;
  const ActivationGroup& g;
  int64_t cols;
  Prefetch ahead;
  float* y;
  int rows;  // kRows if that is not 0
};

template <typename T, int kRows>
HWY_INLINE void direct(const T& type, const Direct& in) {
  constexpr int kMost = kRows != 0 ? kRows : kGroupRows;
  constexpr int kUnit = panel_format(T::kType).unit;
  constexpr int kParts = 32 / T::kSub;  // sub-scales per strip
  constexpr bool kSums = T::kDmin != 0 || !kDotSubtractsOffset<T::kOffset>;
  const int rows = kRows != 0 ? kRows : in.rows;
  const ActivationGroup& g = in.g;
  const auto* w = reinterpret_cast<const uint8_t*>(in.panel);
  F32 d[kMost];
  F32 m[kMost];
  for (int r = 0; r < rows; ++r) d[r] = m[r] = zero();
  for (int64_t b = 0; b < in.cols / 256; ++b, w += kUnit) {
    I32 t[kMost];
    I32 z[kMost];
    for (int r = 0; r < rows; ++r) t[r] = z[r] = zero_int();
    const int16_t* sums = sums_of<T::kSub>(g, b, rows);
    for (int h = 0; h < 2; ++h) {
      if (in.ahead.distance != 0) prefetch(w + h * (kUnit / 2), in.ahead.distance, kUnit / 2);
      const int8_t* q = g.quads + (b * 2 + h) * 128 * rows;
      unroll<kParts>([&](auto part) {
        I32 c[4][kMost];
        part_dots<part(), kRows>(type, w, h, q, rows, c);
        const int slot = h * kParts + part();
        const I32 scales = load_int(w + T::kScales + 64 * slot);
        unroll<4>([&](auto s) {
          const I32 scale = T::template scale<s()>(scales);
          const int32_t* shift = g.shift + (b * 8 + h * 4 + s()) * rows;
          for (int r = 0; r < rows; ++r)
            t[r] = add(t[r], shl(mul(c[s()][r], scale), set(shift[r])));
        });
        if constexpr (kSums) {
          const I32 mins = load_int(w + T::kMins + 64 * slot);
          const I32 even = T::even_mins(mins);
          const I32 odd = T::odd_mins(mins);
          for (int r = 0; r < rows; ++r) {
            z[r] = dot2(z[r], even, pair(sums + (slot * 2 * rows + r) * 2));
            z[r] = dot2(z[r], odd, pair(sums + ((slot * 2 + 1) * rows + r) * 2));
          }
        }
      });
    }
    const F32 scale = d_of(type, w);
    for (int r = 0; r < rows; ++r) {
      if constexpr (!kDotSubtractsOffset<T::kOffset>)
        t[r] = sub(t[r], mul(z[r], set(int32_t{T::kOffset})));
      d[r] = fma(mul(scale, set(g.scale[b * rows + r])), to_float(t[r]), d[r]);
    }
    if constexpr (T::kDmin != 0) {
      const F32 min = load_f16(w + T::kDmin);
      for (int r = 0; r < rows; ++r)
        m[r] = fma(mul(min, set(g.scale[b * rows + r])), to_float(z[r]), m[r]);
    }
  }
  for (int r = 0; r < rows; ++r) store(in.y + 16 * r, T::kDmin != 0 ? sub(d[r], m[r]) : d[r]);
}

// Layout of expanded panels, per block: codes as bytes, vectors [h][part][strip][kSub / 4]; scales
// as int32 in the same order; pairs of minima (of scales for types without minima) as int16
// [h][part][2]; d and dmin as f32.
template <int kSub>
struct Expanded {
  static constexpr int kScales = 4096;
  static constexpr int kMins = kScales + 256 / kSub * 64;
  static constexpr int kD = kMins + 128 / kSub * 64;
  static constexpr int kDmin = kD + 64;
  static constexpr int kUnit = kDmin + 64;
};

template <int kSub>
int64_t expanded_bytes(int64_t cols) {
  return cols / 256 * Expanded<kSub>::kUnit;
}

template <typename T>
HWY_INLINE void expand(const T& type, const std::byte* panel, int64_t cols, std::byte* expanded) {
  using E = Expanded<T::kSub>;
  constexpr int kParts = 32 / T::kSub;
  constexpr int kVectors = T::kSub / 4;
  const auto* w = reinterpret_cast<const uint8_t*>(panel);
  auto* out = reinterpret_cast<uint8_t*>(expanded);
  for (int64_t b = 0; b < cols / 256; ++b) {
    for (int h = 0; h < 2; ++h) {
      unroll<8>([&](auto j) {
        I32 v[4];
        type.template strips<j()>(w, h, v);
        for (int s = 0; s < 4; ++s) {
          const int part = h * kParts + j() / kVectors;
          store_int(out + ((part * 4 + s) * kVectors + j() % kVectors) * 64, v[s]);
        }
      });
      for (int part = h * kParts; part < (h + 1) * kParts; ++part) {
        const I32 scales = load_int(w + T::kScales + 64 * part);
        unroll<4>([&](auto s) {
          store_int(out + E::kScales + (part * 4 + s()) * 64, T::template scale<s()>(scales));
        });
        const I32 mins = load_int(w + T::kMins + 64 * part);
        store_int(out + E::kMins + part * 128, T::even_mins(mins));
        store_int(out + E::kMins + part * 128 + 64, T::odd_mins(mins));
      }
    }
    store(reinterpret_cast<float*>(out + E::kD), d_of(type, w));
    if constexpr (T::kDmin != 0)
      store(reinterpret_cast<float*>(out + E::kDmin), load_f16(w + T::kDmin));
    w += panel_format(T::kType).unit;
    out += E::kUnit;
  }
}

// Starts block b: initialises t, the integer sum of the contract (linear.h), and adds the minima to
// m. For types without minima (kOffset != 0), t starts with the zero-point correction.
template <int kSub, int kOffset, int R>
HWY_INLINE void begin_block(const uint8_t* w, const ActivationGroup& g, int64_t b, int32_t* t,
                            float* m) {
  using E = Expanded<kSub>;
  const int16_t* sums = sums_of<kSub>(g, b, R);
  if constexpr (kOffset != 0 && kDotSubtractsOffset<kOffset>) {
    for (int r = 0; r < R; ++r) store_int(t + 16 * r, zero_int());
    return;
  }
  I32 z[R];
  for (int r = 0; r < R; ++r) z[r] = zero_int();
  for (int i = 0; i < 128 / kSub; ++i) {
    const I32 mins = load_int(w + E::kMins + 64 * i);
    for (int r = 0; r < R; ++r) z[r] = dot2(z[r], mins, pair(sums + (i * R + r) * 2));
  }
  const F32 min = kOffset == 0 ? load(reinterpret_cast<const float*>(w + E::kDmin)) : zero();
  for (int r = 0; r < R; ++r) {
    if constexpr (kOffset == 0) {
      const F32 scale = mul(min, set(g.scale[b * R + r]));
      store(m + 16 * r, fma(scale, to_float(z[r]), load(m + 16 * r)));
      store_int(t + 16 * r, zero_int());
    } else {
      store_int(t + 16 * r, sub(zero_int(), mul(z[r], set(int32_t{kOffset}))));
    }
  }
}

// The tile microkernel: P expanded panels times a full group. kOffset 0: the type has minima. The
// sums t, d and m are kept in memory, since dot products need all registers.
template <int kSub, int kOffset, int P, int R>
HWY_INLINE void multiply(const uint8_t* const (&panel)[P], const ActivationGroup& g, int64_t cols,
                         float* y) {
  using E = Expanded<kSub>;
  constexpr int kVectors = kSub / 4;
  constexpr int kParts = 32 / kSub;
  alignas(64) int32_t t[P * R * 16];
  alignas(64) float d[P * R * 16] = {};
  alignas(64) float m[P * R * 16] = {};
  for (int64_t b = 0; b < cols / 256; ++b) {
    for (int p = 0; p < P; ++p)
      begin_block<kSub, kOffset, R>(panel[p] + b * E::kUnit, g, b, t + p * R * 16, m + p * R * 16);
    for (int i = 0; i < 256 / kSub; ++i) {
      const int strip = i / 4 / kParts * 4 + i % 4;
      const int8_t* q = g.quads + ((b * 8 + strip) * 8 + i / 4 % kParts * kVectors) * 4 * R;
      I32 c[P][R];
      for (int p = 0; p < P; ++p)
        for (int r = 0; r < R; ++r) c[p][r] = zero_int();
      unroll<kVectors>([&](auto j) {
        I32 u[P];
        for (int p = 0; p < P; ++p)
          u[p] = load_int(panel[p] + b * E::kUnit + (i * kVectors + j()) * 64);
        for (int r = 0; r < R; ++r) {
          const I32 x = quad(q + (j() * R + r) * 4);
          for (int p = 0; p < P; ++p) c[p][r] = dot<kOffset>(c[p][r], u[p], x);
        }
      });
      for (int p = 0; p < P; ++p) {
        const I32 scale = load_int(panel[p] + b * E::kUnit + E::kScales + 64 * i);
        for (int r = 0; r < R; ++r) {
          int32_t* at = t + (p * R + r) * 16;
          const I32 part = shl(mul(c[p][r], scale), set(g.shift[(b * 8 + strip) * R + r]));
          store_int(at, add(load_int(at), part));
        }
      }
    }
    for (int p = 0; p < P; ++p) {
      const F32 scale = load(reinterpret_cast<const float*>(panel[p] + b * E::kUnit + E::kD));
      for (int r = 0; r < R; ++r) {
        const int at = (p * R + r) * 16;
        store(d + at,
              fma(mul(scale, set(g.scale[b * R + r])), to_float(load_int(t + at)), load(d + at)));
      }
    }
  }
  for (int at = 0; at < P * R * 16; at += 16)
    store(y + at, kOffset == 0 ? sub(load(d + at), load(m + at)) : load(d + at));
}
template <int kSub, int kOffset>
void tile(const std::byte* expanded, const ActivationGroup& g, int64_t cols, float* y) {
  multiply<kSub, kOffset, 1, kGroupRows>({reinterpret_cast<const uint8_t*>(expanded)}, g, cols, y);
}
template <int kSub, int kOffset>
void tile_pair(const std::byte* first, const std::byte* second, const ActivationGroup& g,
               int64_t cols, Share, float* y) {
  multiply<kSub, kOffset, 2, kGroupRows>(
      {reinterpret_cast<const uint8_t*>(first), reinterpret_cast<const uint8_t*>(second)}, g, cols,
      y);
}

template <typename T, int R>
void direct_one(const std::byte* const* panel, const ActivationGroup& g, int64_t cols,
                Prefetch ahead, float* y) {
  direct<T, kCompiledRows<R>>(T(), {*panel, g, cols, ahead, y, R});
}
template <typename T>
void expand_one(const std::byte* const* panel, int64_t cols, std::byte* expanded) {
  expand(T(), *panel, cols, expanded);
}

// Types that differ only in their code book share this instantiation.
template <typename T, int kRows>
HWY_NOINLINE void direct_shared(const Book& book, const Direct& in) {
  direct<T, kRows>(with_book<T>(book), in);
}
template <typename T>
HWY_NOINLINE void expand_shared(const Book& book, const std::byte* panel, int64_t cols,
                                std::byte* expanded) {
  expand(with_book<T>(book), panel, cols, expanded);
}
template <typename T, DType kType, int R>
void direct_coded(const std::byte* const* panel, const ActivationGroup& g, int64_t cols,
                  Prefetch ahead, float* y) {
  direct_shared<T, kCompiledRows<R>>(kBook<kType>, {*panel, g, cols, ahead, y, R});
}
template <typename T, DType kType>
void expand_coded(const std::byte* const* panel, int64_t cols, std::byte* expanded) {
  expand_shared<T>(kBook<kType>, *panel, cols, expanded);
}

template <typename T>
constexpr PanelKernels tiles() {
  PanelKernels k;
  k.activations = Activations::kPer256;
  k.expanded_bytes = expanded_bytes<T::kSub>;
  k.tile = tile<T::kSub, T::kOffset>;
  if (kPairs) k.pair = tile_pair<T::kSub, T::kOffset>;
  return k;
}
template <typename T>
constexpr PanelKernels kernels() {
  PanelKernels k = tiles<T>();
  k.expand = expand_one<T>;
  k.direct[0][0] = direct_one<T, 1>;
  k.direct[0][1] = direct_one<T, 2>;
  k.direct[0][2] = direct_one<T, 4>;
  return k;
}
template <typename T, DType kType>
constexpr PanelKernels coded_kernels() {
  static_assert(panel_format(kType).unit == panel_format(T::kType).unit);
  PanelKernels k = tiles<T>();
  k.expand = expand_coded<T, kType>;
  k.direct[0][0] = direct_coded<T, kType, 1>;
  k.direct[0][1] = direct_coded<T, kType, 2>;
  k.direct[0][2] = direct_coded<T, kType, 4>;
  return k;
}

}  // namespace

}  // namespace HWY_NAMESPACE
}  // namespace veery
HWY_AFTER_NAMESPACE();

#endif  // VEERY_KERNELS_CPU_CODEC_SUPER_INL_H
