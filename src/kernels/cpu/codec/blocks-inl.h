// blocks-inl.h: panels of blocks of 32 columns that share a scale, maybe with a minimum.
// Contract: linear.h. Two files share it, so that each compiles in seconds.
#if defined(VEERY_KERNELS_CPU_CODEC_BLOCKS_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef VEERY_KERNELS_CPU_CODEC_BLOCKS_INL_H
#undef VEERY_KERNELS_CPU_CODEC_BLOCKS_INL_H
#else
#define VEERY_KERNELS_CPU_CODEC_BLOCKS_INL_H
#endif

#include "kernels/cpu/codec/panel_types-inl.h"

HWY_BEFORE_NAMESPACE();
namespace veery {
namespace HWY_NAMESPACE {
namespace {

// Bytes that stand for byte - kOffset; kAbove127: they need dot4_wide.
template <int kOffset, bool kAbove127>
struct Code {
  static HWY_INLINE I32 dot(I32 acc, I32 u, I32 x) {
    return kAbove127 ? dot4_wide(acc, u, x) : dot4(acc, u, x);
  }
  // What the sum of the products with block `at` of `all` starts from.
  static HWY_INLINE I32 start(const ActivationGroup& g, int64_t at, int64_t all) {
    constexpr int kArray = kOffset == 8 ? 0 : kOffset == 16 ? 1 : 2;
    if constexpr (kUndo == 0) return zero_int();
    const I32 times = set(g.start[kArray * all + at]);
    return kUndo > 0 ? sub(zero_int(), times) : times;
  }
  static HWY_INLINE I32 start(int32_t sum) { return set(kUndo * sum); }

 private:
  // Times the sum of x that dot() lacks.
  static constexpr int kUndo = (kAbove127 && kWideIsSigned ? 128 : 0) - kOffset;
  static_assert(kUndo == 0 || kUndo == 128 || kUndo == -kOffset);
};
template <typename T>
constexpr bool kAbove127 = [] {
  if constexpr (requires { T::kWide; }) return T::kWide;
  return T::kOffset == 128;
}();
template <typename T>
using CodeOf = Code<T::kOffset, kAbove127<T>>;

// Adds the residuals of the outlier blocks of row r to the D of P panels. vector(p, b, j) is vector
// j of block b as bytes.
template <typename C, int P, typename Vector, typename Scale>
HWY_INLINE void add_residual(F32 (&d)[P], const ActivationGroup& g, int rows, int r, Vector vector,
                             Scale scale) {
  for (int32_t e = 0; e < g.extra[r]; ++e) {
    const OutlierBlock& outlier = g.outliers[e * rows + r];
    I32 c[P][2];  // two chains: they are short, and the order of integer sums is free
    for (int p = 0; p < P; ++p) {
      c[p][0] = C::start(outlier.sum);
      c[p][1] = zero_int();
    }
    unroll<8>([&](auto j) {
      const I32 x = quad(outlier.residual + 4 * j());
      for (int p = 0; p < P; ++p)
        c[p][j() % 2] = C::dot(c[p][j() % 2], vector(p, outlier.block, j), x);
    });
    for (int p = 0; p < P; ++p)
      d[p] = fma(mul(scale(p, outlier.block), set(outlier.scale)), to_float(add(c[p][0], c[p][1])),
                 d[p]);
  }
}

HWY_INLINE const uint8_t* bytes_of(const std::byte* p) {
  return reinterpret_cast<const uint8_t*>(p);
}

// Vector j of 8.
template <typename T>
HWY_INLINE I32 vector_of(const auto& w, auto j) {
  I32 low;
  I32 high;
  T::template vectors<j() % 4>(w, low, high);
  return j() < 4 ? low : high;
}
// Adds the products of 32 columns with kRows rows, or as many as told where kRows is 0, to c.
template <typename T, int kRows, int kMost>
HWY_INLINE void add_products(const auto& w, const int8_t* q, int told, I32 (&c)[kMost]) {
  const int rows = kRows != 0 ? kRows : told;
  unroll<4>([&](auto j) {
    I32 low;
    I32 high;
    T::template vectors<j()>(w, low, high);
    for (int r = 0; r < rows; ++r) {
      c[r] = CodeOf<T>::dot(c[r], low, quad(q + (j() * rows + r) * 4));
      c[r] = CodeOf<T>::dot(c[r], high, quad(q + ((j() + 4) * rows + r) * 4));
    }
  });
}

// Where blocks and what belongs to them lie in the panels of T, as AffinePlaces says of groups.
template <typename T>
struct BlockPlaces {
  static constexpr bool kBias = T::kMin != 0;
  static constexpr int blocks = 1, unit = panel_format(T::kType).unit;
  using Panel = const uint8_t*;

  static HWY_INLINE Panel next(Panel w) { return w + unit; }
  static HWY_INLINE Panel block(Panel w, int) { return w; }
  static HWY_INLINE void fetch(Panel w, int64_t ahead) { prefetch(w, ahead, unit); }
  static HWY_INLINE const uint8_t* codes(const uint8_t* panel, int64_t block) {
    return panel + block * unit;
  }
  static HWY_INLINE F32 scale(const uint8_t* panel, int64_t block) {
    return scale_of<T>(panel + block * unit);
  }
  static HWY_INLINE F32 bias(const uint8_t* panel, int64_t block) {
    return load_f16(panel + block * unit + T::kMin);
  }
};

// The same of panels in three parts, of which the first two are fetched, or all.
template <bool kAll>
struct SplitPlaces {
  static constexpr bool kBias = false;
  static constexpr int blocks = 1;
  using Panel = SplitParts;

  static HWY_INLINE Panel codes(const Panel& panel, int64_t block) {
    return block_of(panel, block);
  }
  static HWY_INLINE Panel next(const Panel& w) { return codes(w, 1); }
  static HWY_INLINE Panel block(const Panel& w, int) { return w; }
  static HWY_INLINE void fetch(const Panel& w, int64_t ahead) {
    prefetch(w.upper, ahead, SplitPanels::kUpper);
    prefetch(w.middle, ahead, SplitPanels::kMiddle);
    if constexpr (kAll) prefetch(w.lower, ahead, SplitPanels::kLower);
  }
  static HWY_INLINE F32 scale(const Panel& panel, int64_t block) {
    return load_f16(codes(panel, block).upper + SplitPanels::kScale);
  }
};

HWY_INLINE bool has_outliers(const ActivationGroup& g, int rows) {
  int32_t blocks = 0;
  for (int r = 0; r < rows; ++r) blocks |= g.extra[r];
  return blocks != 0;
}
// Adds the residuals of the outlier blocks of `rows` rows to y[rows][16], D of a packed panel. A
// function of its own, so that it is compiled once for all numbers of rows.
template <typename T, typename Places>
HWY_NOINLINE void add_residuals(const Places& at, const typename Places::Panel& panel,
                                const ActivationGroup& g, int rows, float* y) {
  const auto vector = [&](int, int64_t b, auto j) { return vector_of<T>(at.codes(panel, b), j); };
  const auto scale = [&](int, int64_t b) { return at.scale(panel, b); };
  for (int r = 0; r < rows; ++r) {
    F32 sum[1] = {load(y + 16 * r)};
    add_residual<CodeOf<T>>(sum, g, rows, r, vector, scale);
    store(y + 16 * r, sum[0]);
  }
}

// One group of rows times one panel.
template <typename Panel>
struct Direct {
  Panel panel;
  const ActivationGroup& g;
  int64_t cols;
  Ahead ahead;
  float* y;
  int rows;  // kRows, or what it is where kRows is 0
};
template <typename T, int kRows, typename Places>
HWY_INLINE void direct(const Places& at, const Direct<typename Places::Panel>& in) {
  constexpr bool kMin = Places::kBias;
  constexpr int kMost = kRows != 0 ? kRows : kGroupRows;
  const int rows = kRows != 0 ? kRows : in.rows;
  const ActivationGroup& g = in.g;
  typename Places::Panel w = in.panel;
  const int64_t blocks = in.cols / 32;
  F32 d[kMost];
  F32 m[kMost];
  for (int r = 0; r < rows; ++r) d[r] = m[r] = zero();
  for (int64_t b = 0; b < blocks; w = at.next(w)) {
    if (in.ahead.bytes != 0) at.fetch(w, in.ahead.bytes);
    const F32 scale = at.scale(w, 0);
    F32 bias = zero();
    if constexpr (kMin) bias = at.bias(w, 0);
    for (int i = 0; i < at.blocks; ++i, ++b) {
      I32 c[kMost];
      for (int r = 0; r < rows; ++r) c[r] = CodeOf<T>::start(g, b * rows + r, blocks * rows);
      add_products<T, kRows>(at.block(w, i), g.quads + b * 32 * rows, rows, c);
      for (int r = 0; r < rows; ++r) {
        d[r] = fma(mul(scale, set(g.scale[b * rows + r])), to_float(c[r]), d[r]);
        if (kMin) m[r] = fma(bias, set(g.moment[b * rows + r]), m[r]);
      }
    }
  }
  for (int r = 0; r < rows; ++r) store(in.y + 16 * r, d[r]);
  if (has_outliers(g, rows)) add_residuals<T>(at, in.panel, g, rows, in.y);
  if (kMin)
    for (int r = 0; r < rows; ++r) store(in.y + 16 * r, add(load(in.y + 16 * r), m[r]));
}

// Expanded: for each block 8 vectors of bytes, d as 16 f32, m as 16 f32 where there is one.
template <bool kMin>
constexpr int kExpanded = kMin ? 640 : 576;

template <bool kMin>
int64_t expanded_bytes(int64_t cols) {
  return cols / 32 * kExpanded<kMin>;
}

template <typename T, typename Places>
HWY_INLINE void expand(const Places& at, const std::byte* panel, int64_t cols,
                       std::byte* expanded) {
  constexpr bool kMin = Places::kBias;
  const auto* w = reinterpret_cast<const uint8_t*>(panel);
  auto* out = reinterpret_cast<uint8_t*>(expanded);
  for (int64_t k = 0; k < cols; k += 32 * at.blocks, w = at.next(w)) {
    const F32 scale = at.scale(w, 0);
    const F32 bias = kMin ? at.bias(w, 0) : zero();
    for (int i = 0; i < at.blocks; ++i, out += kExpanded<kMin>) {
      unroll<8>([&](auto j) { store_int(out + 64 * j(), vector_of<T>(at.block(w, i), j)); });
      store(reinterpret_cast<float*>(out + 512), scale);
      if (kMin) store(reinterpret_cast<float*>(out + 576), bias);
    }
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

// D += the blocks [part.begin, part.end) of P panels.
template <typename C, bool kMin, int P, int R>
HWY_INLINE void add_blocks(const uint8_t* const (&panel)[P], const ActivationGroup& g,
                           int64_t blocks, Share part, F32 (&d)[P][R]) {
  constexpr int kUnit = kExpanded<kMin>;
  for (int64_t b = part.begin; b < part.end; ++b) {
    I32 c[P][R];
    for (int r = 0; r < R; ++r) {
      const I32 start = C::start(g, b * R + r, blocks * R);
      for (int p = 0; p < P; ++p) c[p][r] = start;
    }
    const int8_t* q = g.quads + b * 32 * R;
    unroll<8>([&](auto j) {
      I32 v[P];
      for (int p = 0; p < P; ++p) v[p] = load_int(panel[p] + b * kUnit + 64 * j());
      for (int r = 0; r < R; ++r) {
        const I32 x = quad(q + (j() * R + r) * 4);
        for (int p = 0; p < P; ++p) c[p][r] = C::dot(c[p][r], v[p], x);
      }
    });
    for (int p = 0; p < P; ++p) {
      const F32 scale = load(reinterpret_cast<const float*>(panel[p] + b * kUnit + 512));
      for (int r = 0; r < R; ++r)
        d[p][r] = fma(mul(scale, set(g.scale[b * R + r])), to_float(c[p][r]), d[p][r]);
    }
  }
}

// P panels, the columns of `part`: the first start D, the last add what is not in D yet.
template <typename C, bool kMin, int P, int R>
HWY_INLINE void multiply(const uint8_t* const (&panel)[P], const ActivationGroup& g, int64_t cols,
                         Share part, float* y) {
  const int64_t blocks = cols / 32;
  F32 d[P][R];
  for (int p = 0; p < P; ++p)
    for (int r = 0; r < R; ++r) d[p][r] = part.begin == 0 ? zero() : load(y + (p * R + r) * 16);
  add_blocks<C, kMin>(panel, g, blocks, {part.begin / 32, part.end / 32}, d);
  if (part.end < cols) {
    for (int p = 0; p < P; ++p)
      for (int r = 0; r < R; ++r) store(y + (p * R + r) * 16, d[p][r]);
    return;
  }
  if constexpr (kMin) moments<P, R>(panel, g, blocks, y);
  const auto vector = [&](int p, int64_t b, auto j) {
    return load_int(panel[p] + b * kExpanded<kMin> + 64 * j());
  };
  const auto scale = [&](int p, int64_t b) {
    return load(reinterpret_cast<const float*>(panel[p] + b * kExpanded<kMin> + 512));
  };
  for (int r = 0; r < R; ++r) {
    F32 sum[P];
    for (int p = 0; p < P; ++p) sum[p] = d[p][r];
    add_residual<C>(sum, g, R, r, vector, scale);
    for (int p = 0; p < P; ++p) {
      float* out = y + (p * R + r) * 16;
      store(out, kMin ? add(sum[p], load(out)) : sum[p]);
    }
  }
}
template <typename C, bool kMin>
void tile(const std::byte* expanded, const ActivationGroup& g, int64_t cols, float* y) {
  multiply<C, kMin, 1, kGroupRows>({reinterpret_cast<const uint8_t*>(expanded)}, g, cols, {0, cols},
                                   y);
}
template <typename C, bool kMin>
void tile_pair(const std::byte* first, const std::byte* second, const ActivationGroup& g,
               int64_t cols, Share part, float* y) {
  multiply<C, kMin, 2, kGroupRows>(
      {reinterpret_cast<const uint8_t*>(first), reinterpret_cast<const uint8_t*>(second)}, g, cols,
      part, y);
}

template <typename C, bool kMin>
constexpr PanelKernels tiles() {
  PanelKernels k;
  k.activations = Activations::kPer32;
  k.expanded_bytes = expanded_bytes<kMin>;
  k.tile = tile<C, kMin>;
  if (kPairs) k.pair = tile_pair<C, kMin>;
  k.most_columns = 1024;  // two panels and a group of rows stay in a first level cache of 48 KiB
  return k;
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace veery
HWY_AFTER_NAMESPACE();

#endif  // VEERY_KERNELS_CPU_CODEC_BLOCKS_INL_H
