#include "kernels/common/formulas.h"
#include "kernels/reference/reference.h"

namespace veery {
namespace {

template <typename Formula>
void each_element(const Dispatch& d, const Slots& slots, const Worker& worker,
                  const Formula& formula) {
  const Share rows = share(slots.count(d.out().rows), 1, worker);
  for (int64_t r = rows.begin; r < rows.end; ++r) {
    const float* a = d.in[BinaryIn::kA].row<float>(r);
    const float* b = d.in[BinaryIn::kB] ? d.in[BinaryIn::kB].row<float>(r) : nullptr;
    float* out = d.out().row<float>(r);
    for (int32_t c = 0; c < d.out().cols; ++c) out[c] = formula(a[c], b != nullptr ? b[c] : 0);
  }
}

void add(const Dispatch& d, const Slots& slots, const Worker& worker) {
  each_element(d, slots, worker, [](float a, float b) { return a + b; });
}
void mul(const Dispatch& d, const Slots& slots, const Worker& worker) {
  each_element(d, slots, worker, [](float a, float b) { return a * b; });
}
void mul_row(const Dispatch& d, const Slots& slots, const Worker& worker) {
  const Share rows = share(slots.count(d.out().rows), 1, worker);
  const Operand& row = d.in[MulRowIn::kRow];
  for (int64_t r = rows.begin; r < rows.end; ++r)
    for (int32_t c = 0; c < d.out().cols; ++c)
      d.out().row<float>(r)[c] =
          d.in[MulRowIn::kX].row<float>(r)[c] * row.row<float>(0)[row.cols == 1 ? 0 : c];
}
void scale(const Dispatch& d, const Slots& slots, const Worker& worker) {
  const float factor = d.as<ScaleAttr>().factor;
  each_element(d, slots, worker, [factor](float x, float) { return x * factor; });
}
void activate_all(const Dispatch& d, const Slots& slots, const Worker& worker) {
  const auto& attr = d.as<ActivateAttr>();
  each_element(d, slots, worker, [&](float x, float) { return activated(x, attr); });
}
void softcap_all(const Dispatch& d, const Slots& slots, const Worker& worker) {
  const float cap = d.as<ScaleAttr>().factor;
  each_element(d, slots, worker, [cap](float x, float) { return softcap(x, cap); });
}
void activate_back(const Dispatch& d, const Slots& slots, const Worker& worker) {
  const auto& attr = d.as<ActivateAttr>();
  each_element(d, slots, worker, [&](float dy, float x) { return dy * activated_slope(x, attr); });
}
void softcap_back(const Dispatch& d, const Slots& slots, const Worker& worker) {
  const float cap = d.as<ScaleAttr>().factor;
  each_element(d, slots, worker, [cap](float dy, float x) { return dy * softcap_slope(x, cap); });
}
void constant(const Dispatch& d, const Slots& slots, const Worker& worker) {
  const Share rows = share(slots.count(d.out().rows), 1, worker);
  for (int64_t r = rows.begin; r < rows.end; ++r)
    for (int32_t c = 0; c < d.out().cols; ++c) d.out().row<float>(r)[c] = d.as<ScaleAttr>().factor;
}

bool accepts(const Dispatch& d, const KernelChoice&) {
  return absent_or_matrix(d.in[BinaryIn::kA]) && absent_or_matrix(d.in[BinaryIn::kB]) &&
         is_matrix(d.out());
}

constexpr Target kRef = Target::kReference;
constexpr KernelRow kRows[] = {
    {op::kConstant, kRef, accepts, {"constant", {constant}}},
    {op::kAdd, kRef, accepts, {"add", {add}}},
    {op::kMul, kRef, accepts, {"mul", {mul}}},
    {op::kMulRow, kRef, accepts, {"mul_row", {mul_row}}},
    {op::kScale, kRef, accepts, {"scale", {scale}}},
    {op::kActivate, kRef, accepts, {"activate", {activate_all}}},
    {op::kSoftcap, kRef, accepts, {"softcap", {softcap_all}}},
    {op::kActivateBack, kRef, accepts, {"activate_back", {activate_back}}},
    {op::kSoftcapBack, kRef, accepts, {"softcap_back", {softcap_back}}},
};

}  // namespace

KernelRows reference_elementwise() { return kRows; }

}  // namespace veery
