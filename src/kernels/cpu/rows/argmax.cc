#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/rows/argmax.cc"
#include "kernels/cpu/simd/foreach_f32_target.h"
#include "kernels/cpu/simd/simd-inl.h"
//
#include <algorithm>
#include <limits>

#include "kernels/common/float_kernels.h"

#ifndef VEERY_KERNELS_CPU_ARGMAX_CC
#define VEERY_KERNELS_CPU_ARGMAX_CC
namespace veery::argmax {

// The first phase computes the maximum of each piece of a row. The second phase takes the first
// piece with the largest maximum and finds the index of that element.
constexpr int64_t kPiece = 4096;

inline int64_t pieces(const Dispatch& d) { return (d.in[UnaryIn::kX].cols + kPiece - 1) / kPiece; }

}  // namespace veery::argmax
#endif

HWY_BEFORE_NAMESPACE();
namespace veery {
namespace HWY_NAMESPACE {
namespace {

HWY_INLINE float largest(const float* x, int64_t n) {
  F32 most = set(-std::numeric_limits<float>::infinity());
  int64_t i = 0;
  for (; i + 16 <= n; i += 16) most = max(load(x + i), most);
  float result = max_of(most);
  for (; i < n; ++i) result = x[i] > result ? x[i] : result;
  return result;
}

}  // namespace

void fast_argmax_pieces(const Dispatch& d, const RunShape& shape, const Worker& worker) {
  const int64_t pieces = argmax::pieces(d);
  auto* found = reinterpret_cast<float*>(d.work);
  const Share items = share(shape.count(d.in[UnaryIn::kX].rows) * pieces, 1, worker);
  for (int64_t item = items.begin; item < items.end; ++item) {
    const int64_t c = item % pieces * argmax::kPiece;
    found[item] = largest(d.in[UnaryIn::kX].row<float>(item / pieces) + c,
                          std::min(argmax::kPiece, d.in[UnaryIn::kX].cols - c));
  }
}

void fast_argmax_rows(const Dispatch& d, const RunShape& shape, const Worker& worker) {
  const int64_t pieces = argmax::pieces(d);
  const Share rows = share(shape.count(d.in[UnaryIn::kX].rows), 1, worker);
  for (int64_t r = rows.begin; r < rows.end; ++r) {
    const float* found = reinterpret_cast<const float*>(d.work) + r * pieces;
    const float* best = std::max_element(found, found + pieces);
    const float* x = d.in[UnaryIn::kX].row<float>(r);
    const float* end = x + d.in[UnaryIn::kX].cols;
    const float* at = std::find(x + (best - found) * argmax::kPiece, end, *best);
    // If the piece contains only NaNs, no element is equal to its maximum; index 0 is as good as
    // any.
    *d.out().row<int32_t>(r) = at == end ? 0 : static_cast<int32_t>(at - x);
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace veery
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace veery {
namespace {

size_t found_bytes(const Dispatch& d, const RunExtent& run) {
  const int64_t most = d.in[UnaryIn::kX].rows < 0 ? run.rows : d.in[UnaryIn::kX].rows;
  return static_cast<size_t>(most * argmax::pieces(d)) * sizeof(float);
}

bool accepts(const Dispatch& d, const KernelChoice&) {
  return is_matrix(d.in[UnaryIn::kX]) && is_matrix(d.out(), DType::kI32);
}

#define VEERY_ROW(copy, target, suffix)                                                 \
  {                                                                                     \
    op::kArgmax, target, accepts, {                                                     \
      "argmax_" suffix, {copy::fast_argmax_pieces, copy::fast_argmax_rows}, found_bytes \
    }                                                                                   \
  }
constexpr KernelRow kRows[] = {VEERY_EACH_F32_TARGET(VEERY_ROW)};
#undef VEERY_ROW

}  // namespace

KernelRows fast_argmax() { return kRows; }

}  // namespace veery
#endif
