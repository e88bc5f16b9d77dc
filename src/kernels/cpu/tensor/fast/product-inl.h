// product-inl.h: products of small matrices in the caches.
#if defined(VEERY_KERNELS_CPU_TENSOR_FAST_PRODUCT_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef VEERY_KERNELS_CPU_TENSOR_FAST_PRODUCT_INL_H
#undef VEERY_KERNELS_CPU_TENSOR_FAST_PRODUCT_INL_H
#else
#define VEERY_KERNELS_CPU_TENSOR_FAST_PRODUCT_INL_H
#endif

#include "kernels/cpu/tensor/fast/attention_kernels.h"
#include "kernels/cpu/tensor/fast/lanes-inl.h"

HWY_BEFORE_NAMESPACE();
namespace veery {
namespace HWY_NAMESPACE {

/// c [rows][columns] = a [rows][inner] b [inner][columns], or added to c. Each element is one chain
/// of fused multiply-adds over `inner` in order. Rows of b and c are contiguous; `columns` is a
/// multiple of kProductColumns. Rows of a and c up to the next multiple of kProductRows exist and
/// are computed too.
template <typename T>
struct Product {
  const T* a;
  int64_t a_row, a_step;  ///< distances of rows, and of elements of a row
  const T* b;
  int64_t b_row;
  T* c;
  int64_t c_row;
  int64_t rows, columns, inner;
  bool add = false;
};

// The accumulators of a tile fill the registers.
#if HWY_TARGET == HWY_AVX3
constexpr int kTileRows = 12, kTileVectors = 2;
#elif HWY_TARGET == HWY_AVX2 || HWY_TARGET == HWY_NEON
constexpr int kTileRows = 6, kTileVectors = 1;
#else
constexpr int kTileRows = 4, kTileVectors = 1;
#endif
static_assert(kProductRows % kTileRows == 0 && kProductColumns % (kTileVectors * kLanes) == 0);

template <int kRows, typename T>
HWY_INLINE void product_tile(const Product<T>& p, int64_t row, int64_t column) {
  const T* a = p.a + row * p.a_row;
  const T* b = p.b + column;
  T* c = p.c + row * p.c_row + column;
  Vector<T> acc[kRows][kTileVectors];
  unroll<kRows>([&](auto r) {
    unroll<kTileVectors>([&](auto v) {
      acc[r()][v()] = p.add ? load(c + r() * p.c_row + v() * kLanes) : set(T{0});
    });
  });
  for (int64_t k = 0; k < p.inner; ++k) {
    Vector<T> line[kTileVectors];
    unroll<kTileVectors>([&](auto v) { line[v()] = load(b + k * p.b_row + v() * kLanes); });
    unroll<kRows>([&](auto r) {
      const Vector<T> x = set(a[r() * p.a_row + k * p.a_step]);
      unroll<kTileVectors>([&](auto v) { acc[r()][v()] = fma(x, line[v()], acc[r()][v()]); });
    });
  }
  unroll<kRows>([&](auto r) {
    unroll<kTileVectors>([&](auto v) { store(c + r() * p.c_row + v() * kLanes, acc[r()][v()]); });
  });
}

template <typename T>
HWY_NOINLINE void multiply(const Product<T>& p) {
  for (int64_t column = 0; column < p.columns; column += kTileVectors * kLanes) {
    int64_t row = 0;
    for (; p.rows - row > 2; row += kTileRows) product_tile<kTileRows>(p, row, column);
    if (row < p.rows) product_tile<2>(p, row, column);  // steps of decoding have few rows
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace veery
HWY_AFTER_NAMESPACE();

#endif  // VEERY_KERNELS_CPU_TENSOR_FAST_PRODUCT_INL_H
