// Panels of blocks of 32 with a scale for each half: NVFP4. Contract: linear.h.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/codec/halves.cc"
#include "kernels/cpu/simd/foreach_target.h"
//
#include <algorithm>

#include "kernels/cpu/codec/panel_types-inl.h"

HWY_BEFORE_NAMESPACE();
namespace veery {
namespace HWY_NAMESPACE {
namespace {

// The sum of the products of one half, added to d. vector(j): its vector j as signed bytes.
template <typename Vector>
HWY_INLINE F32 add_half(F32 d, F32 scale, const int8_t* q, int stride, Vector vector) {
  I32 c = zero_int();
  unroll<4>([&](auto j) { c = dot4_signed(c, vector(j), quad(q + j() * stride)); });
  return fma(scale, to_float(c), d);
}

// Adds the residuals of the outlier blocks of row r to D. vector(b, j) is vector j of block b.
template <typename Vector, typename Scale>
HWY_INLINE F32 add_residual(F32 d, const ActivationGroup& g, int rows, int r, Vector vector,
                            Scale scale) {
  for (int32_t e = 0; e < g.extra[r]; ++e) {
    const OutlierBlock& outlier = g.outliers[e * rows + r];
    for (int half = 0; half < 2; ++half)
      d = add_half(d, mul(scale(outlier.block, half), set(outlier.scale)),
                   outlier.residual + 16 * half, 4,
                   [&](auto j) { return vector(outlier.block, 4 * half + j()); });
  }
  return d;
}

constexpr int kUnit = PanelNVFP4::kUnit;

template <int R>
void direct(const std::byte* const* panels, const ActivationGroup& g, int64_t cols, Ahead ahead,
            float* y) {
  const auto* panel = reinterpret_cast<const uint8_t*>(*panels);
  F32 d[R];
  for (int r = 0; r < R; ++r) d[r] = zero();
  for (int64_t b = 0; b < cols / 32; ++b) {
    const uint8_t* w = panel + b * kUnit;
    if (ahead.bytes != 0) prefetch(w, ahead.bytes, kUnit);
    I32 c[2][R];
    for (int r = 0; r < R; ++r) c[0][r] = c[1][r] = zero_int();
    const int8_t* q = g.quads + b * 32 * R;
    unroll<4>([&](auto j) {
      const I32 low = PanelNVFP4::vector(w, j());
      const I32 high = PanelNVFP4::vector(w, j() + 4);
      for (int r = 0; r < R; ++r) {
        c[0][r] = dot4_signed(c[0][r], low, quad(q + (j() * R + r) * 4));
        c[1][r] = dot4_signed(c[1][r], high, quad(q + ((j() + 4) * R + r) * 4));
      }
    });
    for (int half = 0; half < 2; ++half) {
      const F32 scale = PanelNVFP4::scale(w, half);
      for (int r = 0; r < R; ++r)
        d[r] = fma(mul(scale, set(g.scale[b * R + r])), to_float(c[half][r]), d[r]);
    }
  }
  const auto vector = [&](int64_t b, int j) { return PanelNVFP4::vector(panel + b * kUnit, j); };
  const auto scale = [&](int64_t b, int half) {
    return PanelNVFP4::scale(panel + b * kUnit, half);
  };
  for (int r = 0; r < R; ++r) store(y + 16 * r, add_residual(d[r], g, R, r, vector, scale));
}

// Full groups take bytes that stand for byte - kOffset: what dot4_signed does to the signs of each
// row costs as much as the product.
constexpr int kOffset = 16;
constexpr int kRows = kGroupRows;

// -kOffset times the sums of the halves of some blocks: [half][row].
struct Starts {
  static constexpr int64_t kBlocks = 32;

  void set(const int8_t* quads, int64_t blocks) {
    for (int64_t h = 0; h < 2 * blocks; ++h, quads += 16 * kRows)
      store_int(parts[h], dot4(dot4(zero_int(), every_byte(1), load_int(quads)), every_byte(1),
                               load_int(quads + 64)));
    store_int(parts[2 * blocks], zero_int());
    for (int64_t h = 0; h < 2 * blocks; ++h) {  // lane r has quads 0 and 2 of its row, r + 8 others
      const I32 sum = add(load_int(parts[h]), load_int(parts[h] + kRows));
      store_int(of + h * kRows, shl<4>(sub(zero_int(), sum)));
    }
  }

  alignas(64) int32_t parts[2 * kBlocks + 1][16];
  alignas(64) int32_t of[2 * kBlocks * kRows + 16];
};

struct Packed {
  static constexpr int kUnit = PanelNVFP4::kUnit;
  static HWY_INLINE I32 vector(const uint8_t* w, int j) {
    const I32 v = load_int(w + 64 * (j % 4));
    return lookup(load_int(kBook<DType::kNVFP4, kOffset>.table),
                  bit_and(j < 4 ? v : shr16<4>(v), every_byte(15)));
  }
  static HWY_INLINE F32 scale(const uint8_t* w, int half) { return PanelNVFP4::scale(w, half); }
};
// For each block 8 vectors of bytes, two times 16 f32.
struct Expanded {
  static constexpr int kUnit = 640;
  static HWY_INLINE I32 vector(const uint8_t* w, int j) { return load_int(w + 64 * j); }
  static HWY_INLINE F32 scale(const uint8_t* w, int half) {
    return load(reinterpret_cast<const float*>(w + 512 + 64 * half));
  }
};

// Adds one block of P panels to D.
template <typename Form, int P>
HWY_INLINE void add_block(const uint8_t* const (&w)[P], const int8_t* q, const int32_t* starts,
                          const float* scales, F32 (&d)[P][kRows]) {
  for (int half = 0; half < 2; ++half, q += 16 * kRows, starts += kRows) {
    I32 c[P][kRows];
    for (int p = 0; p < P; ++p)
      for (int r = 0; r < kRows; ++r) c[p][r] = set(starts[r]);
    unroll<4>([&](auto j) {
      I32 v[P];
      for (int p = 0; p < P; ++p) v[p] = Form::vector(w[p], 4 * half + j());
      for (int r = 0; r < kRows; ++r) {
        const I32 x = quad(q + (j() * kRows + r) * 4);
        for (int p = 0; p < P; ++p) c[p][r] = dot4(c[p][r], v[p], x);
      }
    });
    for (int p = 0; p < P; ++p) {
      const F32 scale = Form::scale(w[p], half);
      for (int r = 0; r < kRows; ++r)
        d[p][r] = fma(mul(scale, set(scales[r])), to_float(c[p][r]), d[p][r]);
    }
  }
}
// The residuals of the outlier blocks of row r, added to d.
template <typename Form>
HWY_INLINE F32 add_residual(F32 d, const uint8_t* panel, const ActivationGroup& g, int r) {
  for (int32_t e = 0; e < g.extra[r]; ++e) {
    const OutlierBlock& outlier = g.outliers[e * kRows + r];
    const uint8_t* w = panel + outlier.block * Form::kUnit;
    for (int half = 0; half < 2; ++half) {
      const int8_t* q = outlier.residual + 16 * half;
      int32_t sum = 0;
      for (int i = 0; i < 16; ++i) sum += q[i];
      I32 c = set(-kOffset * sum);
      unroll<4>([&](auto j) { c = dot4(c, Form::vector(w, 4 * half + j()), quad(q + 4 * j())); });
      d = fma(mul(Form::scale(w, half), set(outlier.scale)), to_float(c), d);
    }
  }
  return d;
}

// P panels, the columns of `part`: the first start D, the last add what is not in D yet.
template <typename Form, int P>
HWY_INLINE void multiply(const std::byte* const (&panels)[P], const ActivationGroup& g,
                         int64_t cols, Share part, Ahead ahead, float* y) {
  const uint8_t* first[P];
  F32 d[P][kRows];
  for (int p = 0; p < P; ++p) {
    first[p] = reinterpret_cast<const uint8_t*>(panels[p]);
    for (int r = 0; r < kRows; ++r)
      d[p][r] = part.begin == 0 ? zero() : load(y + (p * kRows + r) * 16);
  }
  Starts starts;
  const int64_t end = part.end / 32;
  for (int64_t from = part.begin / 32; from < end; from += Starts::kBlocks) {
    const int64_t to = std::min(end, from + Starts::kBlocks);
    starts.set(g.quads + from * 32 * kRows, to - from);
    for (int64_t b = from; b < to; ++b) {
      const uint8_t* w[P];
      for (int p = 0; p < P; ++p) {
        w[p] = first[p] + b * Form::kUnit;
        if (ahead.bytes != 0) prefetch(w[p], ahead.bytes, Form::kUnit);
      }
      add_block<Form, P>(w, g.quads + b * 32 * kRows, starts.of + (b - from) * 2 * kRows,
                         g.scale + b * kRows, d);
    }
  }
  for (int p = 0; p < P; ++p)
    for (int r = 0; r < kRows; ++r)
      store(y + (p * kRows + r) * 16,
            part.end == cols ? add_residual<Form>(d[p][r], first[p], g, r) : d[p][r]);
}
void direct_full(const std::byte* const* panel, const ActivationGroup& g, int64_t cols, Ahead ahead,
                 float* y) {
  multiply<Packed, 1>({*panel}, g, cols, {0, cols}, ahead, y);
}
void tile(const std::byte* expanded, const ActivationGroup& g, int64_t cols, float* y) {
  multiply<Expanded, 1>({expanded}, g, cols, {0, cols}, {}, y);
}
void tile_pair(const std::byte* first, const std::byte* second, const ActivationGroup& g,
               int64_t cols, Share part, float* y) {
  multiply<Expanded, 2>({first, second}, g, cols, part, {}, y);
}

int64_t expanded_bytes(int64_t cols) { return cols / 32 * Expanded::kUnit; }

void expand(const std::byte* bytes, int64_t cols, std::byte* expanded) {
  const auto* panel = reinterpret_cast<const uint8_t*>(bytes);
  auto* out = reinterpret_cast<uint8_t*>(expanded);
  for (int64_t b = 0; b < cols / 32; ++b, panel += Packed::kUnit, out += Expanded::kUnit) {
    for (int j = 0; j < 8; ++j) store_int(out + 64 * j, Packed::vector(panel, j));
    for (int half = 0; half < 2; ++half)
      store(reinterpret_cast<float*>(out + 512 + 64 * half), Packed::scale(panel, half));
  }
}

constexpr PanelKernels kernels() {
  PanelKernels k;
  k.activations = Activations::kPer32;
  k.expand = expand;
  k.expanded_bytes = expanded_bytes;
  k.direct[0][0] = direct<1>;
  k.direct[0][1] = direct<2>;
  k.direct[0][2] = direct<4>;
  if (kPairs) k.direct[0][3] = direct_full;
  k.tile = tile;
  if (kPairs) k.pair = tile_pair;
  k.most_columns = 1024;  // as for other blocks of 32
  return k;
}

}  // namespace

extern const PanelKernels kHalvesKernels;
constexpr PanelKernels kHalvesKernels = kernels();

}  // namespace HWY_NAMESPACE
}  // namespace veery
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace veery {

const PanelKernels* halves_kernels(Target target, DType type) {
  return type == DType::kNVFP4 ? &VEERY_FOR_TARGET(target, kHalvesKernels) : nullptr;
}

}  // namespace veery
#endif
