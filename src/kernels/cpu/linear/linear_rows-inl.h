// linear_rows-inl.h: the rows that a product multiplies.
#if defined(VEERY_KERNELS_CPU_LINEAR_ROWS_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef VEERY_KERNELS_CPU_LINEAR_ROWS_INL_H
#undef VEERY_KERNELS_CPU_LINEAR_ROWS_INL_H
#else
#define VEERY_KERNELS_CPU_LINEAR_ROWS_INL_H
#endif

#include "kernels/cpu/form/row-inl.h"
#include "kernels/cpu/linear/linear_product.h"

HWY_BEFORE_NAMESPACE();
namespace veery {
namespace HWY_NAMESPACE {
namespace {

/// The input row of row `index` of a product; what int8 leaves over of it is written to `rest`.
HWY_INLINE Row input_row(const Dispatch& d, const Product& p, int64_t index, float* rest) {
  const float* x = d.in[LinearIn::kX].row<float>(p.two_terms ? index / 2 : index);
  const float* norm = d.in[LinearIn::kNorm] ? d.in[LinearIn::kNorm].row<float>(0) : nullptr;
  const float inverse = norm != nullptr ? inverse_rms(x, p.cols, d.as<LinearAttr>().eps) : 1.0F;
  const Row row = {x, norm, inverse, !p.two_terms};
  if (!p.two_terms || index % 2 == 0) return row;
  write_rest(p.weights[0].kernels->activations, row, p.cols, rest);
  return {rest, nullptr, 1.0F, false};
}
/// The input rows [first, first + count), `rest` having Product::rest_bytes().
HWY_INLINE void input_rows(const Dispatch& d, const Product& p, int64_t first, int count,
                           std::byte* rest, Row* rows) {
  auto* values = reinterpret_cast<float*>(rest);
  for (int r = 0; r < count; ++r) rows[r] = input_row(d, p, first + r, values + r / 2 * p.cols);
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace veery
HWY_AFTER_NAMESPACE();

#endif  // VEERY_KERNELS_CPU_LINEAR_ROWS_INL_H
