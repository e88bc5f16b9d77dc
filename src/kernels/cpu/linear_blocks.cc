// Panels of blocks of 32: Q4_0, Q4_1, Q5_0, Q5_1, Q8_0, IQ4_NL, MXFP4. Contract: linear.h.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/linear_blocks.cc"
#include "kernels/cpu/foreach_target.h"
//
#include "kernels/cpu/panel_types-inl.h"

HWY_BEFORE_NAMESPACE();
namespace veery {
namespace HWY_NAMESPACE {
namespace {

// What the sum of the products of a block starts from.
template <int kOffset, int kStart>
HWY_INLINE I32 start_of(const ActivationGroup& g, int64_t at, int64_t all) {
  if constexpr (kDotTakesOff<kOffset>)
    return zero_int();
  else
    return set(g.start[kStart * all + at]);
}

// Adds what the loud blocks of row r left over to D. vector(b, j) is vector j of block b as bytes.
template <int kOffset, typename Vector, typename Scale>
HWY_INLINE F32 add_rest(F32 d, const ActivationGroup& g, int rows, int r, Vector vector,
                        Scale scale) {
  for (int32_t e = 0; e < g.extra[r]; ++e) {
    const LoudBlock& loud = g.loud[e * rows + r];
    I32 c = kDotTakesOff<kOffset> ? zero_int() : set(-kOffset * loud.sum);
    unroll<8>(
        [&](auto j) { c = dot<kOffset>(c, vector(loud.block, j), quad(loud.rest + 4 * j())); });
    d = fma(mul(scale(loud.block), set(loud.scale)), to_float(c), d);
  }
  return d;
}

template <typename T, int R>
void direct(const std::byte* panel, const ActivationGroup& g, int64_t cols, int64_t ahead,
            float* y) {
  constexpr int kUnit = panel_format(T::kType).unit;
  const auto* w = reinterpret_cast<const uint8_t*>(panel);
  const int64_t blocks = cols / 32;
  F32 d[R];
  F32 m[R];
  for (int r = 0; r < R; ++r) d[r] = m[r] = zero();
  for (int64_t b = 0; b < blocks; ++b, w += kUnit) {
    if (ahead != 0) prefetch(w, ahead, kUnit);
    I32 c[R];
    for (int r = 0; r < R; ++r) c[r] = start_of<T::kOffset, T::kStart>(g, b * R + r, blocks * R);
    const int8_t* q = g.quads + b * 32 * R;
    unroll<4>([&](auto j) {
      I32 low;
      I32 high;
      T::template vectors<j()>(w, low, high);
      for (int r = 0; r < R; ++r) {
        c[r] = dot<T::kOffset>(c[r], low, quad(q + (j() * R + r) * 4));
        c[r] = dot<T::kOffset>(c[r], high, quad(q + ((j() + 4) * R + r) * 4));
      }
    });
    const F32 scale = scale_of<T>(w);
    for (int r = 0; r < R; ++r)
      d[r] = fma(mul(scale, set(g.scale[b * R + r])), to_float(c[r]), d[r]);
    if constexpr (T::kMin != 0) {
      const F32 min = load_f16(w + T::kMin);
      for (int r = 0; r < R; ++r) m[r] = fma(min, set(g.moment[b * R + r]), m[r]);
    }
  }
  const auto* first = reinterpret_cast<const uint8_t*>(panel);
  const auto vector = [&](int64_t b, auto j) {
    I32 low;
    I32 high;
    T::template vectors<j() % 4>(first + b * kUnit, low, high);
    return j() < 4 ? low : high;
  };
  const auto scale = [&](int64_t b) { return scale_of<T>(first + b * kUnit); };
  for (int r = 0; r < R; ++r) {
    d[r] = add_rest<T::kOffset>(d[r], g, R, r, vector, scale);
    store(y + 16 * r, T::kMin != 0 ? add(d[r], m[r]) : d[r]);
  }
}

// Expanded: for each block 8 vectors of bytes, d as 16 f32, m as 16 f32 where there is one.
template <bool kMin>
constexpr int kExpanded = kMin ? 640 : 576;

template <bool kMin>
int64_t expanded_bytes(int64_t cols) {
  return cols / 32 * kExpanded<kMin>;
}

template <typename T>
void expand(const std::byte* panel, int64_t cols, std::byte* expanded) {
  const auto* w = reinterpret_cast<const uint8_t*>(panel);
  auto* out = reinterpret_cast<uint8_t*>(expanded);
  for (int64_t b = 0; b < cols / 32; ++b) {
    unroll<4>([&](auto j) {
      I32 low;
      I32 high;
      T::template vectors<j()>(w, low, high);
      store_int(out + 64 * j(), low);
      store_int(out + 64 * (j() + 4), high);
    });
    store(reinterpret_cast<float*>(out + 512), scale_of<T>(w));
    if constexpr (T::kMin != 0) store(reinterpret_cast<float*>(out + 576), load_f16(w + T::kMin));
    w += panel_format(T::kType).unit;
    out += kExpanded<T::kMin != 0>;
  }
}

// M of the contract, in a pass of its own: the dots then have the registers for themselves.
template <int P, int R>
HWY_INLINE void moments(const uint8_t* const (&panel)[P], const ActivationGroup& g, int64_t blocks,
                        float* y) {
  F32 m[P][R];
  for (int p = 0; p < P; ++p)
    for (int r = 0; r < R; ++r) m[p][r] = zero();
  for (int64_t b = 0; b < blocks; ++b) {
    F32 min[P];
    for (int p = 0; p < P; ++p)
      min[p] = load(reinterpret_cast<const float*>(panel[p] + b * kExpanded<true> + 576));
    for (int r = 0; r < R; ++r) {
      const F32 x = set(g.moment[b * R + r]);
      for (int p = 0; p < P; ++p) m[p][r] = fma(min[p], x, m[p][r]);
    }
  }
  for (int p = 0; p < P; ++p)
    for (int r = 0; r < R; ++r) store(y + (p * R + r) * 16, m[p][r]);
}

// P panels. With two of them D does not fit into the registers beside the sums; it lives in `d`.
template <int kOffset, int kStart, bool kMin, int P, int R>
HWY_INLINE void multiply(const uint8_t* const (&panel)[P], const ActivationGroup& g, int64_t cols,
                         float* y) {
  constexpr int kUnit = kExpanded<kMin>;
  const int64_t blocks = cols / 32;
  alignas(64) float d[P * R * 16] = {};
  for (int64_t b = 0; b < blocks; ++b) {
    I32 c[P][R];
    for (int r = 0; r < R; ++r) {
      const I32 start = start_of<kOffset, kStart>(g, b * R + r, blocks * R);
      for (int p = 0; p < P; ++p) c[p][r] = start;
    }
    const int8_t* q = g.quads + b * 32 * R;
    unroll<8>([&](auto j) {
      I32 v[P];
      for (int p = 0; p < P; ++p) v[p] = load_int(panel[p] + b * kUnit + 64 * j());
      for (int r = 0; r < R; ++r) {
        const I32 x = quad(q + (j() * R + r) * 4);
        for (int p = 0; p < P; ++p) c[p][r] = dot<kOffset>(c[p][r], v[p], x);
      }
    });
    for (int p = 0; p < P; ++p) {
      const F32 scale = load(reinterpret_cast<const float*>(panel[p] + b * kUnit + 512));
      for (int r = 0; r < R; ++r) {
        float* at = d + (p * R + r) * 16;
        store(at, fma(mul(scale, set(g.scale[b * R + r])), to_float(c[p][r]), load(at)));
      }
    }
  }
  if constexpr (kMin) moments<P, R>(panel, g, blocks, y);
  for (int p = 0; p < P; ++p) {
    float* out = y + p * R * 16;
    const auto vector = [&](int64_t b, auto j) {
      return load_int(panel[p] + b * kUnit + 64 * j());
    };
    const auto scale = [&](int64_t b) {
      return load(reinterpret_cast<const float*>(panel[p] + b * kUnit + 512));
    };
    for (int r = 0; r < R; ++r) {
      const F32 v = add_rest<kOffset>(load(d + (p * R + r) * 16), g, R, r, vector, scale);
      store(out + 16 * r, kMin ? add(v, load(out + 16 * r)) : v);
    }
  }
}
template <int kOffset, int kStart, bool kMin>
void tile(const std::byte* expanded, const ActivationGroup& g, int64_t cols, float* y) {
  multiply<kOffset, kStart, kMin, 1, kGroupRows>({reinterpret_cast<const uint8_t*>(expanded)}, g,
                                                 cols, y);
}
template <int kOffset, int kStart, bool kMin>
void tile_pair(const std::byte* first, const std::byte* second, const ActivationGroup& g,
               int64_t cols, float* y) {
  multiply<kOffset, kStart, kMin, 2, kGroupRows>(
      {reinterpret_cast<const uint8_t*>(first), reinterpret_cast<const uint8_t*>(second)}, g, cols,
      y);
}

template <typename T>
constexpr PanelKernels kernels() {
  PanelKernels k;
  k.activations = Activations::kPer32;
  k.expand = expand<T>;
  k.expanded_bytes = expanded_bytes<T::kMin != 0>;
  k.direct[0] = direct<T, 1>;
  k.direct[1] = direct<T, 2>;
  k.direct[2] = direct<T, 4>;
  if (kPairs) k.direct[3] = direct<T, 8>;
  k.tile = tile<T::kOffset, T::kStart, T::kMin != 0>;
  if (kPairs) k.pair = tile_pair<T::kOffset, T::kStart, T::kMin != 0>;
  return k;
}

}  // namespace

extern const PanelKernels kBlockKernels[7];
constexpr PanelKernels kBlockKernels[7] = {
    kernels<PanelQ4_0>(), kernels<PanelQ4_1>(),   kernels<PanelQ5_0>(), kernels<PanelQ5_1>(),
    kernels<PanelQ8_0>(), kernels<PanelIQ4_NL>(), kernels<PanelMXFP4>()};

}  // namespace HWY_NAMESPACE
}  // namespace veery
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace veery {

const PanelKernels* block_kernels(Target target, DType type) {
  const PanelKernels* table = VEERY_FOR_TARGET(target, kBlockKernels);
  switch (type) {
    case DType::kQ4_0: return table;
    case DType::kQ4_1: return table + 1;
    case DType::kQ5_0: return table + 2;
    case DType::kQ5_1: return table + 3;
    case DType::kQ8_0: return table + 4;
    case DType::kIQ4_NL: return table + 5;
    case DType::kMXFP4: return table + 6;
    default: return nullptr;
  }
}

}  // namespace veery
#endif
