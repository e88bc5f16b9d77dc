// epilogue-inl.h: what follows the product of a panel with some rows: bias, gate, residual,
// and the store or the search for the largest.
#if defined(VEERY_KERNELS_CPU_LINEAR_EPILOGUE_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef VEERY_KERNELS_CPU_LINEAR_EPILOGUE_INL_H
#undef VEERY_KERNELS_CPU_LINEAR_EPILOGUE_INL_H
#else
#define VEERY_KERNELS_CPU_LINEAR_EPILOGUE_INL_H
#endif

#include <algorithm>
#include <cmath>

#include "kernels/cpu/linear/product.h"
#include "kernels/cpu/simd/activate-inl.h"

HWY_BEFORE_NAMESPACE();
namespace veery {
namespace HWY_NAMESPACE {
namespace {

// What follows the product of one panel with rows [row, row + count).
struct Finish {
  const Dispatch& d;
  const Product& p;
  Best* best;  // of this worker; null: outputs are stored

  static constexpr int kMostRows = 16;

  // y, up: [count][16], of weight `i` and (gated) of the second; count is at most kMostRows.
  void operator()(int i, int64_t panel, int64_t row, int count, const float* y,
                  const float* up) const {
    float sums[kMostRows / 2 * kLanes];
    if (p.two_terms) {
      row /= 2;
      count /= 2;
      for (int r = 0; r < count; ++r)
        store(sums + r * kLanes, add(load(y + 2 * r * kLanes), load(y + (2 * r + 1) * kLanes)));
      y = sums;
    }
    int r = 0;
    for (; r + kAtOnce <= count; r += kAtOnce)
      finish_rows<kAtOnce>(i, panel, row + r, y + r * kLanes, up + r * kLanes);
    for (; r < count; ++r) finish_rows<1>(i, panel, row + r, y + r * kLanes, up + r * kLanes);
  }

  // Brings near what a panel, and the one that is multiplied with it, will read and write: rows
  // lie far apart, and the tail of a product waits for all of them.
  HWY_INLINE void fetch(int i, int64_t panel, int64_t row, int count) const {
    if (best != nullptr) return;
    if (p.two_terms) row /= 2, count /= 2;
    const int64_t column = p.weights[i].column + panel * kLanes;
    for (int r = 0; r < count; ++r) {
      const float* out = d.out().row<float>(row + r) + column;
      __builtin_prefetch(out, 1, 3);
      if (!p.gated) __builtin_prefetch(out + kLanes, 1, 3);
      if (!d.in[LinearIn::kResidual]) continue;
      const float* residual = d.in[LinearIn::kResidual].row<float>(row + r) + column;
      __builtin_prefetch(residual, 0, 3);
      if (!p.gated) __builtin_prefetch(residual + kLanes, 0, 3);
    }
  }
  static void keep_best(F32 v, int64_t n, int lanes, Best& best) {
    float value[kLanes];
    store(value, v);
    for (int i = lanes; i < kLanes; ++i) value[i] = -HUGE_VALF;
    v = load(value);
    const F32 so_far = load(best.value);
    const Mask better = greater(v, so_far);
    store(best.value, select(better, v, so_far));
    alignas(64) int32_t index[kLanes];
    for (int i = 0; i < kLanes; ++i) index[i] = static_cast<int32_t>(n) + i;
    store_int(best.index,
              bits(select(better, as_float(load_int(index)), as_float(load_int(best.index)))));
  }

 private:
  static constexpr int kAtOnce = 4;  // chains of activations side by side

  template <int kRows>
  HWY_INLINE void finish_rows(int i, int64_t panel, int64_t row, const float* y,
                              const float* up) const {
    const auto& attr = d.as<LinearAttr>();
    const int64_t n = panel * kLanes;
    const int lanes = static_cast<int>(std::min<int64_t>(kLanes, p.weights[i].rows - n));
    const int64_t column = p.weights[i].column + n;
    F32 v[kRows];
    load_rows(y, i, n, lanes, v);
    activate(v, attr.gate);
    if (p.gated) {
      F32 other[kRows];
      load_rows(up, 1, n, lanes, other);
      unroll<kRows>([&](auto r) { v[r()] = mul(v[r()], other[r()]); });
    }
    if (attr.scale != 1) unroll<kRows>([&](auto r) { v[r()] = mul(v[r()], set(attr.scale)); });
    if (const Operand& residual = d.in[LinearIn::kResidual])
      unroll<kRows>([&](auto r) {
        v[r()] = add(v[r()], load_first(residual.row<float>(row + r()) + column, lanes));
      });
    unroll<kRows>([&](auto r) {
      if (best != nullptr)
        keep_best(v[r()], n, lanes, best[row + r()]);
      else
        store_first(d.out().row<float>(row + r()) + column, v[r()], lanes);
    });
  }
  // With their bias.
  template <int kRows>
  HWY_INLINE void load_rows(const float* y, int weight, int64_t n, int lanes,
                            F32 (&v)[kRows]) const {
    unroll<kRows>([&](auto r) { v[r()] = load(y + r() * kLanes); });
    if (const Operand& bias = d.in[LinearIn::kBias + weight]) {
      const F32 b = load_first(bias.row<float>(0) + n, lanes);
      unroll<kRows>([&](auto r) { v[r()] = add(v[r()], b); });
    }
  }
};

inline Best* start_best(std::byte* base, int64_t rows, int worker) {
  Best* best = reinterpret_cast<Best*>(base) + rows * worker;
  for (int64_t r = 0; r < rows; ++r)
    for (int i = 0; i < kLanes; ++i) best[r].value[i] = -HUGE_VALF, best[r].index[i] = 0;
  return best;
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace veery
HWY_AFTER_NAMESPACE();

#endif  // VEERY_KERNELS_CPU_LINEAR_EPILOGUE_INL_H
