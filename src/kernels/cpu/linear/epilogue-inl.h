// epilogue-inl.h: applies an epilogue (epilogue.h) to the products of a panel with a group of rows.
#if defined(VEERY_KERNELS_CPU_LINEAR_EPILOGUE_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef VEERY_KERNELS_CPU_LINEAR_EPILOGUE_INL_H
#undef VEERY_KERNELS_CPU_LINEAR_EPILOGUE_INL_H
#else
#define VEERY_KERNELS_CPU_LINEAR_EPILOGUE_INL_H
#endif

#include <algorithm>
#include <cmath>

#include "kernels/cpu/linear/epilogue.h"
#include "kernels/cpu/simd/activate-inl.h"

HWY_BEFORE_NAMESPACE();
namespace veery {
namespace HWY_NAMESPACE {
namespace {

// Completes the outputs of one panel for rows [row, row + count).
struct Finish {
  const Epilogue& e;
  const Product& p;

  static constexpr int kMostRows = 16;

  // y, up: [count][16], products with weight i and, if gated, with the second weight.
  // count <= kMostRows. With residual quantisation, rows 2 r and 2 r + 1 are added first.
  void operator()(int i, int64_t panel, int64_t row, int count, const float* y,
                  const float* up) const {
    float sums[kMostRows / 2 * kLanes];
    if (p.quantises_residual) {
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

  // Prefetches the output and residual-connection elements of a panel and, unless gated, of the one
  // after it: rows are far apart in memory, and without this the epilogue waits for each of them.
  HWY_INLINE void fetch(int i, int64_t panel, int64_t row, int count) const {
    if (e.best != nullptr) return;
    if (p.quantises_residual) row /= 2, count /= 2;
    const int64_t column = p.weights[i].column + panel * kLanes;
    const bool reads = e.added && e.added.data != e.out.data;
    for (int r = 0; r < count; ++r) {
      const float* out = e.out.row(row + r) + column;
      __builtin_prefetch(out, 1, 3);
      if (!p.gated) __builtin_prefetch(out + kLanes, 1, 3);
      if (!reads) continue;
      const float* added = e.added.row(row + r) + column;
      __builtin_prefetch(added, 0, 3);
      if (!p.gated) __builtin_prefetch(added + kLanes, 0, 3);
    }
  }

 private:
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

  static constexpr int kAtOnce = 4;  // rows in flight, to hide the latency of activation functions

  template <int kRows>
  HWY_INLINE void finish_rows(int i, int64_t panel, int64_t row, const float* y,
                              const float* up) const {
    const int64_t n = panel * kLanes;
    const int lanes = static_cast<int>(std::min<int64_t>(kLanes, p.weights[i].rows - n));
    const int64_t column = p.weights[i].column + n;
    F32 v[kRows];
    load_rows(y, i, n, row, lanes, v);
    if (p.gated) {
      F32 other[kRows];
      load_rows(up, 1, n, row, lanes, other);
      apply_gate(v, other);
    } else {
      activate(v, e.gate);
    }
    if (e.scale != 1) unroll<kRows>([&](auto r) { v[r()] = mul(v[r()], set(e.scale)); });
    if (e.added)
      unroll<kRows>([&](auto r) {
        const F32 to = load_first(e.added.row(row + r()) + column, lanes);
        v[r()] = e.factor != nullptr ? fma(set(e.factor[row + r()]), v[r()], to) : add(v[r()], to);
      });
    unroll<kRows>([&](auto r) {
      if (e.best != nullptr)
        keep_best(v[r()], n, lanes, e.best[row + r()]);
      else
        store_first(e.out.row(row + r()) + column, v[r()], lanes);
    });
  }
  // Loads products; applies bias and input_factor.
  template <int kRows>
  HWY_INLINE void load_rows(const float* y, int weight, int64_t n, int64_t row, int lanes,
                            F32 (&v)[kRows]) const {
    unroll<kRows>([&](auto r) { v[r()] = load(y + r() * kLanes); });
    if (const float* bias = e.bias[static_cast<size_t>(weight)]) {
      const F32 b = load_first(bias + n, lanes);
      unroll<kRows>([&](auto r) { v[r()] = add(v[r()], b); });
    }
    if (e.input_factor != nullptr)
      unroll<kRows>([&](auto r) { v[r()] = mul(v[r()], set(e.input_factor[row + r()])); });
  }
  template <int kRows>
  HWY_INLINE void apply_gate(F32 (&v)[kRows], const F32 (&up)[kRows]) const {
    if (e.limit > 0) {
      unroll<kRows>([&](auto r) { v[r()] = limited_gate(v[r()], up[r()]); });
      return;
    }
    activate(v, e.gate);
    unroll<kRows>([&](auto r) { v[r()] = mul(v[r()], up[r()]); });
  }
  HWY_INLINE F32 limited_gate(F32 g, F32 u) const {
    g = min(g, set(e.limit));
    u = max(min(u, set(e.limit)), set(-e.limit));
    const F32 part = add(set(1.0F), exp(neg(mul(set(e.alpha), g))));
    return mul(div(g, part), add(u, set(1.0F)));
  }
};

/// Returns the array of `rows` largest outputs of a worker, set to -infinity.
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
