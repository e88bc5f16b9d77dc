#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/rows/elementwise.cc"
#include "kernels/cpu/simd/foreach_f32_target.h"
//
#include "kernels/cpu/simd/activate-inl.h"
//
#include <algorithm>

#include "kernels/common/float_kernels.h"

HWY_BEFORE_NAMESPACE();
namespace veery {
namespace HWY_NAMESPACE {
namespace {

// Columns per work item, so that several workers can share one long row.
constexpr int64_t kChunk = 2048;

struct Add {
  HWY_INLINE F32 operator()(F32 a, F32 b) const { return add(a, b); }
};
struct Mul {
  HWY_INLINE F32 operator()(F32 a, F32 b) const { return mul(a, b); }
};
struct Scale {
  float factor;
  HWY_INLINE F32 operator()(F32 x, F32) const { return mul(x, set(factor)); }
};
struct Activate {
  ActivateAttr attr;
  HWY_INLINE F32 operator()(F32 x, F32) const { return activated(x, attr); }
};
struct Softcap {
  float cap;
  HWY_INLINE F32 operator()(F32 x, F32) const { return mul(set(cap), tanh(div(x, set(cap)))); }
};

// Applies a formula to n elements. Unary ops pass `a` as `b`.
template <typename Formula>
HWY_INLINE void apply(const Formula& formula, const float* a, const float* b, int64_t n,
                      float* out) {
  int64_t i = 0;
  for (; i + 16 <= n; i += 16) store(out + i, formula(load(a + i), load(b + i)));
  const int rest = static_cast<int>(n - i);
  if (rest > 0)
    store_first(out + i, formula(load_first(a + i, rest), load_first(b + i, rest)), rest);
}

template <typename Formula>
HWY_INLINE void each_element(const Dispatch& d, const RunShape& shape, const Worker& worker,
                             const Formula& formula) {
  const int64_t chunks = (d.out().cols + kChunk - 1) / kChunk;
  const Share items = share(shape.count(d.out().rows) * chunks, 1, worker);
  const Operand& other = d.in[BinaryIn::kB] ? d.in[BinaryIn::kB] : d.in[BinaryIn::kA];
  const int64_t step = other.rows == 1 ? 0 : 1;
  for (int64_t item = items.begin; item < items.end; ++item) {
    const int64_t r = item / chunks;
    const int64_t c = item % chunks * kChunk;
    apply(formula, d.in[BinaryIn::kA].row<float>(r) + c, other.row<float>(r * step) + c,
          std::min(kChunk, d.out().cols - c), d.out().row<float>(r) + c);
  }
}

// Multiplies each of b.cols equal parts of a row of a by one element of b.
HWY_INLINE void mul_parts(const Dispatch& d, const RunShape& shape, const Worker& worker) {
  const Operand& b = d.in[BinaryIn::kB];
  const int64_t part = d.out().cols / b.cols;
  const Share rows = share(shape.count(d.out().rows), 1, worker);
  for (int64_t r = rows.begin; r < rows.end; ++r)
    for (int64_t i = 0; i < b.cols; ++i) {
      const float* a = d.in[BinaryIn::kA].row<float>(r) + i * part;
      apply(Scale{b.row<float>(b.rows == 1 ? 0 : r)[i]}, a, a, part,
            d.out().row<float>(r) + i * part);
    }
}

}  // namespace

void fast_add(const Dispatch& d, const RunShape& s, const Worker& w) {
  each_element(d, s, w, Add());
}
void fast_mul(const Dispatch& d, const RunShape& s, const Worker& w) {
  if (d.in[BinaryIn::kB].cols == d.out().cols) return each_element(d, s, w, Mul());
  mul_parts(d, s, w);
}
void fast_scale(const Dispatch& d, const RunShape& s, const Worker& w) {
  each_element(d, s, w, Scale{d.as<ScaleAttr>().factor});
}
void fast_activate(const Dispatch& d, const RunShape& s, const Worker& w) {
  each_element(d, s, w, Activate{d.as<ActivateAttr>()});
}
void fast_softcap(const Dispatch& d, const RunShape& s, const Worker& w) {
  each_element(d, s, w, Softcap{d.as<ScaleAttr>().factor});
}

}  // namespace HWY_NAMESPACE
}  // namespace veery
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace veery {
namespace {

bool accepts(const Dispatch& d, const KernelChoice&) {
  return is_matrix(d.in[BinaryIn::kA]) && absent_or_matrix(d.in[BinaryIn::kB]) &&
         is_matrix(d.out());
}

constexpr KernelRow kRows[] = {
    VEERY_F32_ROWS(op::kAdd, accepts, add, nullptr),
    VEERY_F32_ROWS(op::kMul, accepts, mul, nullptr),
    VEERY_F32_ROWS(op::kScale, accepts, scale, nullptr),
    VEERY_F32_ROWS(op::kActivate, accepts, activate, nullptr),
    VEERY_F32_ROWS(op::kSoftcap, accepts, softcap, nullptr),
};

}  // namespace

KernelRows fast_elementwise() { return kRows; }

}  // namespace veery
#endif
