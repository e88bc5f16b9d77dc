// Panels of blocks of 32 with a scale for each half: NVFP4. Contract: linear.h.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/linear_halves.cc"
#include "kernels/cpu/foreach_target.h"
//
#include "kernels/cpu/panel_types-inl.h"

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

// Adds what the loud blocks of row r left over to D. vector(b, j) is vector j of block b.
template <typename Vector, typename Scale>
HWY_INLINE F32 add_rest(F32 d, const ActivationGroup& g, int rows, int r, Vector vector,
                        Scale scale) {
  for (int32_t e = 0; e < g.extra[r]; ++e) {
    const LoudBlock& loud = g.loud[e * rows + r];
    for (int half = 0; half < 2; ++half)
      d = add_half(d, mul(scale(loud.block, half), set(loud.scale)), loud.rest + 16 * half, 4,
                   [&](auto j) { return vector(loud.block, 4 * half + j()); });
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
  for (int r = 0; r < R; ++r) store(y + 16 * r, add_rest(d[r], g, R, r, vector, scale));
}

// Expanded: for each block 8 vectors of signed bytes, two times 16 f32.
constexpr int kExpanded = 640;

int64_t expanded_bytes(int64_t cols) { return cols / 32 * kExpanded; }

void expand(const std::byte* bytes, int64_t cols, std::byte* expanded) {
  const auto* panel = reinterpret_cast<const uint8_t*>(bytes);
  auto* out = reinterpret_cast<uint8_t*>(expanded);
  for (int64_t b = 0; b < cols / 32; ++b, panel += kUnit, out += kExpanded) {
    for (int j = 0; j < 8; ++j) store_int(out + 64 * j, PanelNVFP4::vector(panel, j));
    for (int half = 0; half < 2; ++half)
      store(reinterpret_cast<float*>(out + 512 + 64 * half), PanelNVFP4::scale(panel, half));
  }
}

HWY_INLINE F32 expanded_scale(const uint8_t* panel, int64_t b, int half) {
  return load(reinterpret_cast<const float*>(panel + b * kExpanded + 512 + 64 * half));
}

void tile(const std::byte* expanded, const ActivationGroup& g, int64_t cols, float* y) {
  constexpr int R = kGroupRows;
  const auto* panel = reinterpret_cast<const uint8_t*>(expanded);
  F32 d[R];
  for (int r = 0; r < R; ++r) d[r] = zero();
  for (int64_t b = 0; b < cols / 32; ++b)
    for (int half = 0; half < 2; ++half) {
      const uint8_t* w = panel + b * kExpanded + 256 * half;
      const int8_t* q = g.quads + (b * 2 + half) * 16 * R;
      const F32 scale = expanded_scale(panel, b, half);
      I32 c[R];
      for (int r = 0; r < R; ++r) c[r] = zero_int();
      unroll<4>([&](auto j) {
        const I32 v = load_int(w + 64 * j());
        for (int r = 0; r < R; ++r) c[r] = dot4_signed(c[r], v, quad(q + (j() * R + r) * 4));
      });
      for (int r = 0; r < R; ++r)
        d[r] = fma(mul(scale, set(g.scale[b * R + r])), to_float(c[r]), d[r]);
    }
  const auto vector = [&](int64_t b, int j) { return load_int(panel + b * kExpanded + 64 * j); };
  const auto scale = [&](int64_t b, int half) { return expanded_scale(panel, b, half); };
  for (int r = 0; r < R; ++r) store(y + 16 * r, add_rest(d[r], g, R, r, vector, scale));
}

constexpr PanelKernels kernels() {
  PanelKernels k;
  k.activations = Activations::kPer32;
  k.expand = expand;
  k.expanded_bytes = expanded_bytes;
  k.direct[0][0] = direct<1>;
  k.direct[0][1] = direct<2>;
  k.direct[0][2] = direct<4>;
  k.tile = tile;
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
