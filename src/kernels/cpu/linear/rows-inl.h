// rows-inl.h: quantises the input rows of a product into groups.
#if defined(VEERY_KERNELS_CPU_LINEAR_ROWS_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef VEERY_KERNELS_CPU_LINEAR_ROWS_INL_H
#undef VEERY_KERNELS_CPU_LINEAR_ROWS_INL_H
#else
#define VEERY_KERNELS_CPU_LINEAR_ROWS_INL_H
#endif

#include "kernels/cpu/activations/row-inl.h"
#include "kernels/cpu/linear/product.h"

HWY_BEFORE_NAMESPACE();
namespace veery {
namespace HWY_NAMESPACE {

/// Quantises `count` rows as a group of w rows, in every kind that a weight needs (quantise.cc).
void quantise_rows(const Row* rows, int count, const Product& p, const ActivationGroup* groups,
                   int w);

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
constexpr Target kTarget = Target::kPlain;
#endif

/// Returns row `index` of a product. With residual quantisation, odd rows are the residual of the
/// row before, which is written to `residual`.
HWY_INLINE Row input_row(const Dispatch& d, const Product& p, int64_t index, float* residual) {
  const float* x = d.in[FusedLinearIn::kX].row<float>(p.quantises_residual ? index / 2 : index);
  const float* norm =
      d.in[FusedLinearIn::kNorm] ? d.in[FusedLinearIn::kNorm].row<float>(0) : nullptr;
  const float inverse =
      norm != nullptr ? inverse_rms(x, p.cols, d.as<FusedLinearAttr>().eps) : 1.0F;
  const Row row = {x, norm, inverse, !p.quantises_residual};
  if (!p.quantises_residual || index % 2 == 0) return row;
  write_residual(p.weights[0].kernels->activations, row, p.cols, residual);
  return {residual, nullptr, 1.0F, false};
}
/// Sets `rows` to rows [first, first + count). `residual` has Product::residual_bytes().
HWY_INLINE void input_rows(const Dispatch& d, const Product& p, int64_t first, int count,
                           std::byte* residual, Row* rows) {
  auto* values = reinterpret_cast<float*>(residual);
  for (int r = 0; r < count; ++r) rows[r] = input_row(d, p, first + r, values + r / 2 * p.cols);
}

/// Quantises `rows`, the rows of group `group`, in every kind that a weight needs, into the
/// activations at `base`.
inline void quantise_group(const Product& p, std::byte* base, int64_t group, const Row* rows) {
  const int count = p.group_rows(group);
  const int w = group_width(count);
  ActivationGroup groups[kActivationKinds];
  for (int kind = 0; kind < kActivationKinds; ++kind)
    if (p.needs[kind])
      groups[kind] =
          activation_group(static_cast<Activations>(kind), p.group(base, kind, group), p.cols, w);
  quantise_rows(rows, count, p, groups, w);
}
/// Quantises group `group` of the (optionally normalised) input rows of a linear. `residual` has
/// Product::residual_bytes().
inline void quantise_group(const Dispatch& d, const Product& p, std::byte* base, int64_t group,
                           std::byte* residual) {
  Row rows[kGroupRows];
  input_rows(d, p, group * p.group_size, p.group_rows(group), residual, rows);
  quantise_group(p, base, group, rows);
}
/// Quantises the only group of a product with few rows into a worker's scratch, which has
/// Product::few_scratch_bytes().
inline void quantise_few(const Dispatch& d, const Product& p, const Worker& worker) {
  quantise_group(d, p, worker.scratch, 0,
                 worker.scratch + p.activation_bytes() + p.expanded_bytes());
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace veery
HWY_AFTER_NAMESPACE();

#endif  // VEERY_KERNELS_CPU_LINEAR_ROWS_INL_H
