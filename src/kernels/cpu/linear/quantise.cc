// Quantises activations for the kinds of weights of a product; compiled once for all products.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/linear/quantise.cc"
#include "kernels/cpu/simd/foreach_target.h"
//
#include "kernels/cpu/linear/rows-inl.h"

HWY_BEFORE_NAMESPACE();
namespace veery {
namespace HWY_NAMESPACE {

void quantise_rows(const Row* rows, int count, const Product& p, const ActivationGroup* groups,
                   int w) {
  for (int kind = 0; kind < kActivationKinds; ++kind) {
    if (!p.needs[kind]) continue;
    const ActivationGroup& g = groups[kind];
    using enum Activations;
    switch (static_cast<Activations>(kind)) {
      case kFloat: write_values<kFloat>(rows, count, p.cols, g, w); break;
      case kPer32: quantise_per32(rows, count, p.cols, g, w); break;
      case kPer256: quantise_per256(rows, count, p.cols, g, w); break;
      case kRounded: write_values<kRounded>(rows, count, p.cols, g, w); break;
      case kPairs: write_values<kPairs>(rows, count, p.cols, g, w); break;
    }
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace veery
HWY_AFTER_NAMESPACE();
