#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/rows/layer_norm.cc"
#include "kernels/cpu/simd/foreach_f32_target.h"
#include "kernels/cpu/simd/simd-inl.h"
//
#include <cmath>

#include "kernels/common/float_kernels.h"

HWY_BEFORE_NAMESPACE();
namespace veery {
namespace HWY_NAMESPACE {
namespace {

// Returns the sum of term() over a row: four interleaved accumulators of 16 lanes; the tail is
// padded with zeros.
template <typename Term>
HWY_INLINE float sum_of(const float* x, int64_t n, const Term& term) {
  F32 part[4] = {zero(), zero(), zero(), zero()};
  int64_t i = 0;
  for (; i + 64 <= n; i += 64)
    for (int c = 0; c < 4; ++c) part[c] = term(load(x + i + 16 * c), 16, part[c]);
  for (int c = 0; i < n; i += 16, ++c) {
    const int lanes = n - i >= 16 ? 16 : static_cast<int>(n - i);
    part[c] = term(load_first(x + i, lanes), lanes, part[c]);
  }
  return sum(add(add(part[0], part[1]), add(part[2], part[3])));
}

// Returns x - mean in the first `lanes` lanes, 0 in the others.
HWY_INLINE F32 centred(F32 x, F32 mean, int lanes) {
  const F32 difference = sub(x, mean);
  if (lanes == 16) return difference;
  float values[16];
  store(values, difference);
  return load_first(values, lanes);
}

struct Moments {
  float mean, inverse;  ///< inverse: 1 / sqrt(variance + eps)
};
HWY_INLINE Moments moments(const float* x, int64_t n, float eps) {
  const auto size = static_cast<float>(n);
  const float mean = sum_of(x, n, [](F32 v, int, F32 part) { return add(part, v); }) / size;
  const float squares = sum_of(x, n, [&](F32 v, int lanes, F32 part) {
    const F32 difference = centred(v, set(mean), lanes);
    return fma(difference, difference, part);
  });
  return {mean, 1.0F / std::sqrt(squares / size + eps)};
}

// `bias` may be null; `out` may be `x`.
HWY_INLINE void norm_part(const float* x, const float* weight, const float* bias, int64_t n,
                          float eps, float* out) {
  const Moments m = moments(x, n, eps);
  for (int64_t i = 0; i < n; i += 16) {
    const int lanes = n - i >= 16 ? 16 : static_cast<int>(n - i);
    const F32 v = mul(sub(load_first(x + i, lanes), set(m.mean)), set(m.inverse));
    const F32 y = mul(v, load_first(weight + i, lanes));
    store_first(out + i, bias == nullptr ? y : add(y, load_first(bias + i, lanes)), lanes);
  }
}

}  // namespace

void fast_layer_norm(const Dispatch& d, const RunShape& shape, const Worker& worker) {
  const auto& attr = d.as<NormAttr>();
  const int64_t n = d.out().cols / attr.groups;
  const Share parts = share(shape.count(d.out().rows) * attr.groups, 1, worker);
  for (int64_t part = parts.begin; part < parts.end; ++part) {
    const int64_t r = part / attr.groups;
    const int64_t c = part % attr.groups * n;
    const int64_t at = d.in[LayerNormIn::kWeight].cols == d.out().cols ? c : 0;
    const float* bias =
        d.in[LayerNormIn::kBias] ? d.in[LayerNormIn::kBias].row<float>(0) + at : nullptr;
    norm_part(d.in[LayerNormIn::kX].row<float>(r) + c,
              d.in[LayerNormIn::kWeight].row<float>(0) + at, bias, n, attr.eps,
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
  return is_matrix(d.in[LayerNormIn::kX]) && is_matrix(d.in[LayerNormIn::kWeight]) &&
         absent_or_matrix(d.in[LayerNormIn::kBias]) && is_matrix(d.out());
}

constexpr KernelRow kRows[] = {VEERY_F32_ROWS(op::kLayerNorm, accepts, layer_norm, nullptr)};

}  // namespace

KernelRows fast_layer_norm() { return kRows; }

}  // namespace veery
#endif
