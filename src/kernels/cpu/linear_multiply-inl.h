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

/// Writes the rows of a group of w in every form that a weight wants.
HWY_INLINE void prepare_rows(const Row* rows, int count, const Product& p,
                             const ActivationGroup* forms, int w) {
  for (int r = 0; r < count && p.wants[0]; ++r) copy_values(rows[r], p.cols, forms[0], w, r);
  if (p.wants[1]) quantise_per32(rows, count, p.cols, forms[1], w);
  for (int r = 0; r < count && p.wants[2]; ++r) quantise_per256(rows[r], p.cols, forms[2], w, r);
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

// y[2][8][16] of two panels, of one weight or of the two of a gate, after the last part.
void multiply_two(const Product& p, std::byte* base, int64_t group, const Panel& a, const Panel& b,
                  Share part, float* y) {
  const PanelKernels& k = *p.weights[a.weight].kernels;
  const PanelKernels& other = *p.weights[b.weight].kernels;
  const int w = group_width(p.group_rows(group));
  const auto small_pair = [w](const PanelKernels& kernels) {
    return w <= kSmallGroupRows ? kernels.direct_pair[w / 2] : nullptr;
  };
  if (k.pair != nullptr && !p.packed && k.pair == other.pair && w == kGroupRows) {
    k.pair(a.expanded, b.expanded, form_of(p, base, a, group), p.cols, part, y);
  } else if (part.end == p.cols && small_pair(k) != nullptr && small_pair(k) == small_pair(other)) {
    small_pair(k)(k.direct_expanded ? a.expanded : a.packed,
                  k.direct_expanded ? b.expanded : b.packed, form_of(p, base, a, group), p.cols,
                  group == 0 ? p.ahead : 0, y);
  } else if (part.end == p.cols) {
    multiply_one(p, base, group, a, y);
    multiply_one(p, base, group, b, y + kGroupRows * kLanes);
  }
}

// Part `index` of `count` of the packed panels that follow, into the second level cache.
HWY_INLINE void fetch_next(const Product& p, int i, Share panels, int64_t index, int64_t count) {
  for (int k = i; k < (p.gated ? 2 : i + 1); ++k) {
    const Weight& w = p.weights[k];
    const int64_t bytes = (panels.end - panels.begin) * w.stride;
    const std::byte* from = w.data + panels.begin * w.stride;
    for (int64_t at = bytes * index / count / 64 * 64; at < bytes * (index + 1) / count; at += 64)
      __builtin_prefetch(from + at, 0, 2);
  }
}

// Panels of output i, two at a time (gated: one of each weight), with rows in blocks that stay in
// the second level cache, columns in parts that stay in the first. finish(i, panel, row, count, y,
// up) takes y[count][16], and where gated those of the second weight; finish.fetch(i, panel, row,
// count) comes before the product.
template <typename Finish>
void multiply_panels(const Product& p, std::byte* base, std::byte* scratch, int i, Share panels,
                     const Finish& finish) {
  constexpr int kSecond = kGroupRows * kLanes;
  auto* sums = reinterpret_cast<float*>(scratch);
  const int64_t step = p.gated ? 1 : 2;
  const int64_t columns = p.part_columns(i);
  const int64_t stride = columns < p.cols ? 2 * kSecond : 0;  // one group's sums are done at once
  for (int64_t block = 0; block < p.groups(); block += p.block_groups) {
    const int64_t end = std::min(p.groups(), block + p.block_groups);
    for (int64_t panel = panels.begin; panel < panels.end; panel += step) {
      const bool both = p.gated || panel + 1 < panels.end;
      std::byte* free = scratch + kMostGroups * kPairBytes;
      const Panel a = use_panel(p, i, panel, free);
      const Panel b = !both     ? a
                      : p.gated ? use_panel(p, 1, panel, free)
                                : use_panel(p, i, panel + 1, free);
      for (Share part = {0, both ? columns : p.cols}; part.begin < p.cols;
           part = {part.end, std::min(p.cols, part.end + columns)}) {
        for (int64_t group = block; group < end; ++group) {
          const int64_t row = group * p.group_size;
          const int rows = p.group_rows(group);
          float* y = sums + (group - block) * stride;
          if (part.begin == 0 && !p.packed)
            fetch_next(p, i, {panel + step, std::min(panel + 2 * step, panels.end)}, group - block,
                       end - block);
          if (part.end == p.cols) finish.fetch(i, panel, row, rows);
          if (both)
            multiply_two(p, base, group, a, b, part, y);
          else
            multiply_one(p, base, group, a, y);
          if (part.end < p.cols) continue;
          finish(i, panel, row, rows, y, y + kSecond);
          if (both && !p.gated) finish(i, panel + 1, row, rows, y + kSecond, nullptr);
        }
      }
    }
  }
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace veery
HWY_AFTER_NAMESPACE();

#endif  // VEERY_KERNELS_CPU_LINEAR_MULTIPLY_INL_H
