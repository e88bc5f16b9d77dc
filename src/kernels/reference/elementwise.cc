#include "kernels/common/formulas.h"
#include "kernels/reference/reference.h"

namespace veery {
namespace {

template <typename Formula>
void each_element(const Dispatch& d, const RunShape& shape, const Worker& worker,
                  const Formula& formula) {
  const Share rows = share(shape.count(d.out().rows), 1, worker);
  for (int64_t r = rows.begin; r < rows.end; ++r) {
    const float* a = d.in[BinaryIn::kA].row<float>(r);
    const Operand& other = d.in[BinaryIn::kB];
    const float* b = other ? other.row<float>(other.rows == 1 ? 0 : r) : nullptr;
    const int32_t part = other ? d.out().cols / other.cols : 1;
    float* out = d.out().row<float>(r);
    for (int32_t c = 0; c < d.out().cols; ++c)
      out[c] = formula(a[c], b != nullptr ? b[c / part] : 0);
  }
}

void add(const Dispatch& d, const RunShape& shape, const Worker& worker) {
  each_element(d, shape, worker, [](float a, float b) { return a + b; });
}
void mul(const Dispatch& d, const RunShape& shape, const Worker& worker) {
  each_element(d, shape, worker, [](float a, float b) { return a * b; });
}
void sum_to(const Dispatch& d, const RunShape& shape, const Worker& worker) {
  const Operand& x = d.in[BinaryIn::kA];
  const bool one = d.out().rows == 1;
  const int64_t terms = one ? shape.count(x.rows) : 1;
  const int32_t part = x.cols / d.out().cols;
  const Share columns = share(shape.count(d.out().rows) * d.out().cols, 1, worker);
  for (int64_t i = columns.begin; i < columns.end; ++i) {
    const int64_t r = i / d.out().cols, c = i % d.out().cols;
    double sum = 0;
    for (int64_t t = 0; t < terms; ++t)
      for (int32_t k = 0; k < part; ++k) sum += x.row<float>(one ? t : r)[c * part + k];
    d.out().row<float>(r)[c] = static_cast<float>(sum);
  }
}
void spread_to(const Dispatch& d, const RunShape& shape, const Worker& worker) {
  const Operand& x = d.in[BinaryIn::kA];
  const int32_t part = d.out().cols / x.cols;
  const Share rows = share(shape.count(d.out().rows), 1, worker);
  for (int64_t r = rows.begin; r < rows.end; ++r) {
    const float* from = x.row<float>(x.rows == 1 ? 0 : r);
    for (int32_t c = 0; c < d.out().cols; ++c) d.out().row<float>(r)[c] = from[c / part];
  }
}
void scale(const Dispatch& d, const RunShape& shape, const Worker& worker) {
  const float factor = d.as<ScaleAttr>().factor;
  each_element(d, shape, worker, [factor](float x, float) { return x * factor; });
}
void activate_all(const Dispatch& d, const RunShape& shape, const Worker& worker) {
  const auto& attr = d.as<ActivateAttr>();
  each_element(d, shape, worker, [&](float x, float) { return activated(x, attr); });
}
void softcap_all(const Dispatch& d, const RunShape& shape, const Worker& worker) {
  const float cap = d.as<ScaleAttr>().factor;
  each_element(d, shape, worker, [cap](float x, float) { return softcap(x, cap); });
}
void activate_back(const Dispatch& d, const RunShape& shape, const Worker& worker) {
  const auto& attr = d.as<ActivateAttr>();
  each_element(d, shape, worker, [&](float dy, float x) { return dy * activated_slope(x, attr); });
}
void softcap_back(const Dispatch& d, const RunShape& shape, const Worker& worker) {
  const float cap = d.as<ScaleAttr>().factor;
  each_element(d, shape, worker, [cap](float dy, float x) { return dy * softcap_slope(x, cap); });
}

bool accepts(const Dispatch& d, const KernelChoice&) {
  return absent_or_matrix(d.in[BinaryIn::kA]) && absent_or_matrix(d.in[BinaryIn::kB]) &&
         is_matrix(d.out());
}

constexpr Target kRef = Target::kReference;
constexpr KernelRow kRows[] = {
    {op::kAdd, kRef, accepts, {"add", {add}}},
    {op::kMul, kRef, accepts, {"mul", {mul}}},
    {op::kSumTo, kRef, accepts, {"sum_to", {sum_to}}},
    {op::kSpreadTo, kRef, accepts, {"spread_to", {spread_to}}},
    {op::kScale, kRef, accepts, {"scale", {scale}}},
    {op::kActivate, kRef, accepts, {"activate", {activate_all}}},
    {op::kSoftcap, kRef, accepts, {"softcap", {softcap_all}}},
    {op::kActivateBack, kRef, accepts, {"activate_back", {activate_back}}},
    {op::kSoftcapBack, kRef, accepts, {"softcap_back", {softcap_back}}},
};

}  // namespace

KernelRows reference_elementwise() { return kRows; }

}  // namespace veery
