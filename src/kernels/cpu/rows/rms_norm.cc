// RMS norm (kRmsNorm).
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/rows/rms_norm.cc"
#include "kernels/cpu/simd/foreach_f32_target.h"
//
#include "kernels/cpu/activations/row-inl.h"
//
#include "kernels/common/float_kernels.h"

HWY_BEFORE_NAMESPACE();
namespace veery {
namespace HWY_NAMESPACE {
namespace {

// Uses row-inl.h, as the norm inside a linear does, so that fusing the two does not change a bit.
HWY_INLINE void norm_part(const float* x, const float* weight, const float* residual, int64_t n,
                          float eps, float* out) {
  const Row row{x, weight, inverse_rms(x, n, eps)};
  int64_t i = 0;
  for (; i + 16 <= n; i += 16) {
    const F32 y = row.at(i);
    store(out + i, residual == nullptr ? y : add(y, load(residual + i)));
  }
  const int rest = static_cast<int>(n - i);
  if (rest == 0) return;
  const F32 y = row.first(i, rest);
  store_first(out + i, residual == nullptr ? y : add(y, load_first(residual + i, rest)), rest);
}

}  // namespace

void fast_rms_norm(const Dispatch& d, const RunShape& shape, const Worker& worker) {
  const auto& attr = d.as<NormAttr>();
  const int64_t n = d.out().cols / attr.groups;
  const float* weight = d.in[RmsNormIn::kWeight].row<float>(0);
  const Share parts = share(shape.count(d.out().rows) * attr.groups, 1, worker);
  for (int64_t part = parts.begin; part < parts.end; ++part) {
    const int64_t r = part / attr.groups;
    const int64_t c = part % attr.groups * n;
    const float* residual =
        d.in[RmsNormAddIn::kResidual] ? d.in[RmsNormAddIn::kResidual].row<float>(r) + c : nullptr;
    norm_part(d.in[RmsNormIn::kX].row<float>(r) + c, weight, residual, n, attr.eps,
              d.out().row<float>(r) + c);
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace veery
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace veery {
namespace {

bool accepts(const Dispatch& d, const KernelChoice&) {
  return is_matrix(d.in[RmsNormIn::kX]) && is_matrix(d.in[RmsNormIn::kWeight]) &&
         absent_or_matrix(d.in[RmsNormAddIn::kResidual]) && is_matrix(d.out());
}

constexpr KernelRow kRows[] = {VEERY_F32_ROWS(op::kRmsNorm, accepts, rms_norm, nullptr),
                               VEERY_F32_ROWS(op::kRmsNormAdd, accepts, rms_norm, nullptr)};

}  // namespace

KernelRows fast_rms_norm() { return kRows; }

}  // namespace veery
#endif
