// linear_multiply-inl.h: panels times rows in prepared groups: which functions of a type take them.
#if defined(VEERY_KERNELS_CPU_LINEAR_MULTIPLY_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef VEERY_KERNELS_CPU_LINEAR_MULTIPLY_INL_H
#undef VEERY_KERNELS_CPU_LINEAR_MULTIPLY_INL_H
#else
#define VEERY_KERNELS_CPU_LINEAR_MULTIPLY_INL_H
#endif

#include <algorithm>
#include <bit>

#include "kernels/cpu/linear_product.h"
#include "kernels/cpu/row-inl.h"

HWY_BEFORE_NAMESPACE();
namespace veery {
namespace HWY_NAMESPACE {
namespace {

#if HWY_TARGET == HWY_AVX3_DL
constexpr Target kTarget = Target::kAvx512Vnni;
#elif HWY_TARGET == HWY_AVX3
constexpr Target kTarget = Target::kAvx512;
#elif HWY_TARGET == HWY_AVX2
constexpr Target kTarget = Target::kAvx2;
#elif HWY_TARGET == HWY_SSE4  // AVX-VNNI (simd-inl.h)
constexpr Target kTarget = Target::kAvxVnni;
#elif HWY_TARGET == HWY_NEON
constexpr Target kTarget = Target::kNeon;
#elif HWY_TARGET == HWY_SVE  // NEON with dot products
constexpr Target kTarget = Target::kNeonDot;
#else
constexpr Target kTarget = Target::kReference;
#endif

/// Writes a row in every form that a weight wants, as row r of a group of w.
HWY_INLINE void prepare_row(const Row& row, const Product& p, const ActivationGroup* forms, int w,
                            int r) {
  if (p.wants[0]) copy_values(row, p.cols, forms[0], w, r);
  if (p.wants[1]) quantise_per32(row, p.cols, forms[1], w, r);
  if (p.wants[2]) quantise_per256(row, p.cols, forms[2], w, r);
}

// A panel as packed, and expanded where that is needed.
struct Panel {
  int weight;
  const std::byte* packed;
  const std::byte* expanded;
};

// The expanded form goes to `free`, which moves on.
Panel use_panel(const Product& p, int i, int64_t panel, std::byte*& free) {
  const Weight& w = p.weights[i];
  Panel out = {i, w.data + panel * w.stride, nullptr};
  out.expanded = out.packed;
  if (p.expands(i)) {
    out.expanded = free;
    w.kernels->expand(out.packed, p.cols, free);
    free += round_up(w.kernels->expanded_bytes(p.cols), 64);
  }
  return out;
}

ActivationGroup form_of(const Product& p, std::byte* base, const Panel& panel, int64_t group) {
  const Activations form = p.weights[panel.weight].kernels->activations;
  return activation_group(form, p.group(base, static_cast<int>(form), group), p.cols,
                          group_width(p.group_rows(group)));
}

// y[w][16] of one panel and a group of rows.
void multiply_one(const Product& p, std::byte* base, int64_t group, const Panel& panel, float* y) {
  const PanelKernels& k = *p.weights[panel.weight].kernels;
  const ActivationGroup g = form_of(p, base, panel, group);
  const int w = group_width(p.group_rows(group));
  if (w == kGroupRows && !(p.packed && k.direct[3] != nullptr))
    k.tile(panel.expanded, g, p.cols, y);
  else
    k.direct[std::countr_zero(static_cast<unsigned>(w))](
        k.direct_expanded ? panel.expanded : panel.packed, g, p.cols, group == 0 ? p.ahead : 0, y);
}

// y[2][8][16] of two panels, of one weight or of the two of a gate.
void multiply_two(const Product& p, std::byte* base, int64_t group, const Panel& a, const Panel& b,
                  float* y) {
  const PanelKernels& k = *p.weights[a.weight].kernels;
  if (k.pair != nullptr && !p.packed && k.pair == p.weights[b.weight].kernels->pair &&
      group_width(p.group_rows(group)) == kGroupRows) {
    k.pair(a.expanded, b.expanded, form_of(p, base, a, group), p.cols, y);
  } else {
    multiply_one(p, base, group, a, y);
    multiply_one(p, base, group, b, y + kGroupRows * kLanes);
  }
}

// Panels of output i, two at a time (gated: one of each weight), with rows in blocks that stay in
// the second level cache. finish(i, panel, row, count, y, up) takes y[count][16], and where gated
// those of the second weight.
template <typename Finish>
void multiply_panels(const Product& p, std::byte* base, std::byte* scratch, int i, Share panels,
                     const Finish& finish) {
  alignas(64) float y[2 * kGroupRows * kLanes];
  float* second = y + kGroupRows * kLanes;
  const int64_t step = p.gated ? 1 : 2;
  for (int64_t block = 0; block < p.groups(); block += p.block_groups) {
    const int64_t end = std::min(p.groups(), block + p.block_groups);
    for (int64_t panel = panels.begin; panel < panels.end; panel += step) {
      const bool both = p.gated || panel + 1 < panels.end;
      std::byte* free = scratch;
      const Panel a = use_panel(p, i, panel, free);
      const Panel b = !both     ? a
                      : p.gated ? use_panel(p, 1, panel, free)
                                : use_panel(p, i, panel + 1, free);
      for (int64_t group = block; group < end; ++group) {
        const int rows = p.group_rows(group);
        if (both)
          multiply_two(p, base, group, a, b, y);
        else
          multiply_one(p, base, group, a, y);
        finish(i, panel, group * p.group_size, rows, y, second);
        if (both && !p.gated) finish(i, panel + 1, group * p.group_size, rows, second, nullptr);
      }
    }
  }
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace veery
HWY_AFTER_NAMESPACE();

#endif  // VEERY_KERNELS_CPU_LINEAR_MULTIPLY_INL_H
