// join_panel-inl.h: a split panel in the usual format.
#if defined(VEERY_KERNELS_CPU_JOIN_PANEL_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef VEERY_KERNELS_CPU_JOIN_PANEL_INL_H
#undef VEERY_KERNELS_CPU_JOIN_PANEL_INL_H
#else
#define VEERY_KERNELS_CPU_JOIN_PANEL_INL_H
#endif

#include <cstring>

#include "kernels/cpu/codec/panel_types-inl.h"
#include "kernels/cpu/linear/product.h"

HWY_BEFORE_NAMESPACE();
namespace veery {
namespace HWY_NAMESPACE {
namespace {

// Writes a split panel to `out` in the usual format, and fetches some of the next ones.
HWY_INLINE void join_panel(const Weight& w, int64_t cols, int64_t panel, int64_t ahead,
                           std::byte* out) {
  const SplitParts first = parts_of(w.data, SplitPanels(w.rows, cols), panel);
  auto* joined = reinterpret_cast<uint8_t*>(out);
  for (int64_t b = 0; b < cols / 32; ++b, joined += SplitPanels::kWhole) {
    const SplitParts parts = block_of(first, b);
    prefetch(parts.upper, ahead, SplitPanels::kUpper);
    prefetch(parts.middle, ahead, SplitPanels::kMiddle);
    prefetch(parts.lower, ahead, SplitPanels::kLower);
    unroll<4>([&](auto j) {
      I32 low;
      I32 high;
      PanelSplitQ8_0::vectors<j()>(parts, low, high);
      store_int(joined + 64 * j(), low);
      store_int(joined + 64 * (j() + 4), high);
    });
    std::memcpy(joined + PanelQ8_0::kScale, parts.upper + SplitPanels::kScale, 32);
  }
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace veery
HWY_AFTER_NAMESPACE();

#endif  // VEERY_KERNELS_CPU_JOIN_PANEL_INL_H
