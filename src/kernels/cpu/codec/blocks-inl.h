// blocks-inl.h: int8 microkernels for panels of blocks of 32 columns, with one scale per block (or
// per half block) and optionally a minimum. Accumulation order: linear.h. Several source files
// instantiate it, so that each compiles in seconds.
#if defined(VEERY_KERNELS_CPU_CODEC_BLOCKS_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef VEERY_KERNELS_CPU_CODEC_BLOCKS_INL_H
#undef VEERY_KERNELS_CPU_CODEC_BLOCKS_INL_H
#else
#define VEERY_KERNELS_CPU_CODEC_BLOCKS_INL_H
#endif

#include "kernels/cpu/codec/panel_layout-inl.h"

HWY_BEFORE_NAMESPACE();
namespace veery {
namespace HWY_NAMESPACE {
namespace {

// Arithmetic of a code type (template parameter C or CodeOf<T>):
//   kScales     scales per block
//   dot()       accumulates products of four bytes
//   Starts      initial values of the integer accumulators; they correct for the zero point of the
//               codes. reach(b) must precede at(b, part, r): block b, scale `part`, row r.
//   start_of()  the same for the residual of an outlier block

// Unsigned bytes with the zero point kOffset. kAbove127: codes exceed 127 and need dot4_wide().
template <int kOffset, bool kAbove127>
struct Code {
  static constexpr int kScales = 1;

  static HWY_INLINE I32 dot(I32 acc, I32 u, I32 x) {
    return kAbove127 ? dot4_wide(acc, u, x) : dot4(acc, u, x);
  }
  static HWY_INLINE I32 start_of(const OutlierBlock& outlier, int) {
    return set(kUndo * outlier.sum);
  }

  class Starts {
   public:
    HWY_INLINE Starts(const ActivationGroup& g, int64_t blocks, int rows)
        : start_(g.start), blocks_(blocks), rows_(rows) {}
    HWY_INLINE void reach(int64_t) {}
    HWY_INLINE I32 at(int64_t b, int, int r) const {
      constexpr int kArray = kOffset == 8 ? 0 : kOffset == 16 ? 1 : 2;
      if constexpr (kUndo == 0) return zero_int();
      const I32 times = set(start_[kArray * blocks_ * rows_ + b * rows_ + r]);
      return kUndo > 0 ? sub(zero_int(), times) : times;
    }

   private:
    const int32_t* start_;
    int64_t blocks_;
    int rows_;
  };

 private:
  // The result of dot() needs kUndo times the sum of x as correction.
  static constexpr int kUndo = (kAbove127 && kWideIsSigned ? 128 : 0) - kOffset;
  static_assert(kUndo == 0 || kUndo == 128 || kUndo == -kOffset);
};

// Signed bytes, one scale per half block.
struct SignedHalves {
  static constexpr int kScales = 2;

  static HWY_INLINE I32 dot(I32 acc, I32 v, I32 x) { return dot4_signed(acc, v, x); }
  static HWY_INLINE I32 start_of(const OutlierBlock&, int) { return zero_int(); }

  struct Starts {
    HWY_INLINE Starts(const ActivationGroup&, int64_t, int) {}
    HWY_INLINE void reach(int64_t) {}
    HWY_INLINE I32 at(int64_t, int, int) const { return zero_int(); }
  };
};

// The same codes as unsigned bytes with the zero point kOffset, for full groups: there, the sign
// handling of dot4_signed() for each row would cost as much as the product itself.
template <int kOffset>
struct OffsetHalves {
  static constexpr int kScales = 2;

  static HWY_INLINE I32 dot(I32 acc, I32 u, I32 x) { return dot4(acc, u, x); }
  static HWY_INLINE I32 start_of(const OutlierBlock& outlier, int part) {
    int32_t sum = 0;
    for (int i = 0; i < 16; ++i) sum += outlier.residual[16 * part + i];
    return set(-kOffset * sum);
  }

  // Computes -kOffset times the sums of half blocks, for kBlocks blocks at a time.
  class Starts {
   public:
    HWY_INLINE Starts(const ActivationGroup& g, int64_t blocks, int)
        : quads_(g.quads), blocks_(blocks) {}
    HWY_INLINE void reach(int64_t b) {
      if (b < end_) return;
      first_ = b;
      end_ = b + kBlocks < blocks_ ? b + kBlocks : blocks_;
      fill(quads_ + b * 32 * kRows, end_ - b);
    }
    HWY_INLINE I32 at(int64_t b, int part, int r) const {
      return set(of_[((b - first_) * 2 + part) * kRows + r]);
    }

   private:
    static constexpr int64_t kBlocks = 32;
    static constexpr int kRows = kGroupRows;

    void fill(const int8_t* quads, int64_t blocks) {
      for (int64_t h = 0; h < 2 * blocks; ++h, quads += 16 * kRows)
        store_int(sums_[h], dot4(dot4(zero_int(), every_byte(1), load_int(quads)), every_byte(1),
                                 load_int(quads + 64)));
      store_int(sums_[2 * blocks], zero_int());
      for (int64_t h = 0; h < 2 * blocks; ++h) {  // quads 0 and 2 of row r: lane r; 1 and 3: r + 8
        const I32 sum = add(load_int(sums_[h]), load_int(sums_[h] + kRows));
        store_int(of_ + h * kRows, mul(sum, set(int32_t{-kOffset})));
      }
    }

    const int8_t* quads_;
    int64_t blocks_, first_ = 0, end_ = -1;
    alignas(64) int32_t sums_[2 * kBlocks + 1][16];
    alignas(64) int32_t of_[2 * kBlocks * kRows + 16];
  };
};

template <typename T>
constexpr bool kAbove127 = [] {
  if constexpr (requires { T::kWide; }) return T::kWide;
  return T::kOffset == 128;
}();
template <typename T>
struct CodesOf {
  using Type = Code<T::kOffset, kAbove127<T>>;
};
template <>
struct CodesOf<PanelSignedNVFP4> {
  using Type = SignedHalves;
};
template <>
struct CodesOf<PanelNVFP4> {
  using Type = OffsetHalves<PanelNVFP4::kOffset>;
};
template <typename T>
using CodeOf = typename CodesOf<T>::Type;

// Adds the products with the residuals of the outlier blocks of row r to d, the D (linear.h) of P
// panels. vector(p, b, j) returns vector j of block b of panel p as bytes, scale(p, b, part) a
// scale.
template <typename C, int P, typename Vector, typename Scale>
HWY_INLINE void add_residual(F32 (&d)[P], const ActivationGroup& g, int rows, int r, Vector vector,
                             Scale scale) {
  constexpr int kVectors = 8 / C::kScales;
  for (int32_t e = 0; e < g.extra[r]; ++e) {
    const OutlierBlock& outlier = g.outliers[e * rows + r];
    unroll<C::kScales>([&](auto part) {
      I32 c[P][2];  // two accumulators hide latency; integer sums may be reordered
      for (int p = 0; p < P; ++p) {
        c[p][0] = C::start_of(outlier, part());
        c[p][1] = zero_int();
      }
      unroll<kVectors>([&](auto i) {
        constexpr std::integral_constant<int, part() * kVectors + i()> j;
        const I32 x = quad(outlier.residual + 4 * j());
        for (int p = 0; p < P; ++p)
          c[p][j() % 2] = C::dot(c[p][j() % 2], vector(p, outlier.block, j), x);
      });
      for (int p = 0; p < P; ++p)
        d[p] = fma(mul(scale(p, outlier.block, part()), set(outlier.scale)),
                   to_float(add(c[p][0], c[p][1])), d[p]);
    });
  }
}

// Returns vector j (0 to 7) of a block as bytes.
template <typename T>
HWY_INLINE I32 vector_of(const auto& w, auto j) {
  I32 low;
  I32 high;
  T::template vectors<j() % 4>(w, low, high);
  return j() < 4 ? low : high;
}
// Accumulates the products of 32 columns with kRows rows (row_count rows if kRows is 0) in
// c[scale][row].
template <typename T, int kRows, int kScales, int kMost>
HWY_INLINE void add_products(const auto& w, const int8_t* q, int row_count,
                             I32 (&c)[kScales][kMost]) {
  const int rows = kRows != 0 ? kRows : row_count;
  unroll<4>([&](auto j) {
    I32 low;
    I32 high;
    T::template vectors<j()>(w, low, high);
    for (int r = 0; r < rows; ++r) {
      c[0][r] = CodeOf<T>::dot(c[0][r], low, quad(q + (j() * rows + r) * 4));
      I32& second = c[kScales - 1][r];
      second = CodeOf<T>::dot(second, high, quad(q + ((j() + 4) * rows + r) * 4));
    }
  });
}

HWY_INLINE bool has_outliers(const ActivationGroup& g, int rows) {
  int32_t blocks = 0;
  for (int r = 0; r < rows; ++r) blocks |= g.extra[r];
  return blocks != 0;
}
// Adds the products with the residuals of outlier blocks to y[rows][16], D of a packed panel. Not
// inlined, so that it is compiled once for all numbers of rows.
template <typename T, typename PanelLayout>
HWY_NOINLINE void add_residuals(const PanelLayout& at, const typename PanelLayout::Panel& panel,
                                const ActivationGroup& g, int rows, float* y) {
  const auto vector = [&](int, int64_t b, auto j) { return vector_of<T>(at.codes(panel, b), j); };
  const auto scale = [&](int, int64_t b, int part) { return at.scale(panel, b, part); };
  for (int r = 0; r < rows; ++r) {
    F32 sum[1] = {load(y + 16 * r)};
    add_residual<CodeOf<T>>(sum, g, rows, r, vector, scale);
    store(y + 16 * r, sum[0]);
  }
}

// The direct microkernel: one group of rows times one packed panel, decoded in registers.
template <typename Panel>
struct Direct {
  Panel panel;
  const ActivationGroup& g;
  int64_t cols;
  Prefetch ahead;
  float* y;
  int rows;  // kRows if that is not 0
};
template <typename T, int kRows, typename PanelLayout>
HWY_INLINE void direct(const PanelLayout& at, const Direct<typename PanelLayout::Panel>& in) {
  constexpr bool kMin = PanelLayout::kBias;
  constexpr int kScales = PanelLayout::kScales;
  constexpr int kMost = kRows != 0 ? kRows : kGroupRows;
  const int rows = kRows != 0 ? kRows : in.rows;
  const ActivationGroup& g = in.g;
  typename PanelLayout::Panel w = in.panel;
  const int64_t blocks = in.cols / 32;
  F32 d[kMost];
  F32 m[kMost];
  for (int r = 0; r < rows; ++r) d[r] = m[r] = zero();
  typename CodeOf<T>::Starts starts(g, blocks, rows);
  for (int64_t b = 0; b < blocks; w = at.next(w)) {
    if (in.ahead.distance != 0) at.fetch(w, in.ahead.distance);
    F32 scale[kScales];
    for (int part = 0; part < kScales; ++part) scale[part] = at.scale(w, 0, part);
    F32 bias = zero();
    if constexpr (kMin) bias = at.bias(w, 0);
    for (int i = 0; i < at.blocks; ++i, ++b) {
      starts.reach(b);
      I32 c[kScales][kMost];
      for (int part = 0; part < kScales; ++part)
        for (int r = 0; r < rows; ++r) c[part][r] = starts.at(b, part, r);
      add_products<T, kRows>(at.block(w, i), g.quads + b * 32 * rows, rows, c);
      for (int r = 0; r < rows; ++r) {
        for (int part = 0; part < kScales; ++part)
          d[r] = fma(mul(scale[part], set(g.scale[b * rows + r])), to_float(c[part][r]), d[r]);
        if (kMin) m[r] = fma(bias, set(g.moment[b * rows + r]), m[r]);
      }
    }
  }
  for (int r = 0; r < rows; ++r) store(in.y + 16 * r, d[r]);
  if (has_outliers(g, rows)) add_residuals<T>(at, in.panel, g, rows, in.y);
  if (kMin)
    for (int r = 0; r < rows; ++r) store(in.y + 16 * r, add(load(in.y + 16 * r), m[r]));
}

// Layout of expanded panels, per block: 8 vectors of bytes, each scale as 16 f32, and the minimum
// (if the type has one) as 16 f32.
constexpr int kExpandedScales = 512;
template <int kScales>
constexpr int kExpandedMin = kExpandedScales + 64 * kScales;
template <int kScales, bool kMin>
constexpr int kExpanded = kExpandedMin<kScales> + (kMin ? 64 : 0);

template <int kScales, bool kMin>
int64_t expanded_bytes(int64_t cols) {
  return cols / 32 * kExpanded<kScales, kMin>;
}

template <typename T, typename PanelLayout>
HWY_INLINE void expand(const PanelLayout& at, typename PanelLayout::Panel w, int64_t cols,
                       std::byte* expanded) {
  constexpr bool kMin = PanelLayout::kBias;
  constexpr int kScales = PanelLayout::kScales;
  auto* out = reinterpret_cast<uint8_t*>(expanded);
  for (int64_t k = 0; k < cols; k += 32 * at.blocks, w = at.next(w)) {
    F32 scale[kScales];
    for (int part = 0; part < kScales; ++part) scale[part] = at.scale(w, 0, part);
    F32 bias = zero();
    if constexpr (kMin) bias = at.bias(w, 0);
    for (int i = 0; i < at.blocks; ++i, out += kExpanded<kScales, kMin>) {
      unroll<8>([&](auto j) { store_int(out + 64 * j(), vector_of<T>(at.block(w, i), j)); });
      for (int part = 0; part < kScales; ++part)
        store(reinterpret_cast<float*>(out + kExpandedScales + 64 * part), scale[part]);
      if (kMin) store(reinterpret_cast<float*>(out + kExpandedMin<kScales>), bias);
    }
  }
}

// Computes M (linear.h) in a separate pass, so that the dot products have all registers.
template <int P, int R>
HWY_INLINE void moments(const uint8_t* const (&panel)[P], const ActivationGroup& g, int64_t blocks,
                        float* y) {
  F32 m[P][R];
  for (int p = 0; p < P; ++p)
    for (int r = 0; r < R; ++r) m[p][r] = zero();
  for (int64_t b = 0; b < blocks; ++b) {
    F32 min[P];
    for (int p = 0; p < P; ++p)
      min[p] =
          load(reinterpret_cast<const float*>(panel[p] + b * kExpanded<1, true> + kExpandedMin<1>));
    for (int r = 0; r < R; ++r) {
      const F32 x = set(g.moment[b * R + r]);
      for (int p = 0; p < P; ++p) m[p][r] = fma(min[p], x, m[p][r]);
    }
  }
  for (int p = 0; p < P; ++p)
    for (int r = 0; r < R; ++r) store(y + (p * R + r) * 16, m[p][r]);
}

// Adds blocks [share.begin, share.end) of P expanded panels to D (linear.h).
template <typename C, bool kMin, int P, int R>
HWY_INLINE void add_blocks(const uint8_t* const (&panel)[P], const ActivationGroup& g,
                           int64_t blocks, Share share, F32 (&d)[P][R]) {
  constexpr int kUnit = kExpanded<C::kScales, kMin>;
  constexpr int kVectors = 8 / C::kScales;
  typename C::Starts starts(g, blocks, R);
  for (int64_t b = share.begin; b < share.end; ++b) {
    starts.reach(b);
    for (int part = 0; part < C::kScales; ++part) {
      I32 c[P][R];
      for (int r = 0; r < R; ++r) {
        const I32 start = starts.at(b, part, r);
        for (int p = 0; p < P; ++p) c[p][r] = start;
      }
      const int8_t* q = g.quads + (b * 8 + part * kVectors) * 4 * R;
      unroll<kVectors>([&](auto j) {
        I32 v[P];
        for (int p = 0; p < P; ++p)
          v[p] = load_int(panel[p] + b * kUnit + 64 * (part * kVectors + j()));
        for (int r = 0; r < R; ++r) {
          const I32 x = quad(q + (j() * R + r) * 4);
          for (int p = 0; p < P; ++p) c[p][r] = C::dot(c[p][r], v[p], x);
        }
      });
      for (int p = 0; p < P; ++p) {
        const F32 scale = load(
            reinterpret_cast<const float*>(panel[p] + b * kUnit + kExpandedScales) + 16 * part);
        for (int r = 0; r < R; ++r)
          d[p][r] = fma(mul(scale, set(g.scale[b * R + r])), to_float(c[p][r]), d[p][r]);
      }
    }
  }
}

// The tile microkernel: P expanded panels times a full group, columns `part`. The first part starts
// D at 0, the last part adds residuals and M.
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
  constexpr int kUnit = kExpanded<C::kScales, kMin>;
  const auto vector = [&](int p, int64_t b, auto j) {
    return load_int(panel[p] + b * kUnit + 64 * j());
  };
  const auto scale = [&](int p, int64_t b, int of) {
    return load(reinterpret_cast<const float*>(panel[p] + b * kUnit + kExpandedScales) + 16 * of);
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
  k.expanded_bytes = expanded_bytes<C::kScales, kMin>;
  k.tile = tile<C, kMin>;
  if (kPairs) k.pair = tile_pair<C, kMin>;
  k.most_columns = 1024;  // two panels and a group of rows fit an L1 cache of 48 KiB
  return k;
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace veery
HWY_AFTER_NAMESPACE();

#endif  // VEERY_KERNELS_CPU_CODEC_BLOCKS_INL_H
