#include "kernels/cpu/simd/bf16_dot.h"

#if defined(__x86_64__)
#include <cpuid.h>
#endif

namespace veery {
namespace {

// AVX512_BF16 (CPUID leaf 7, sub-leaf 1, bit 5 of EAX) without AMX-BF16 (sub-leaf 0, bit 22 of
// EDX; Intel SDM volume 2A): on a Xeon with AMX-BF16, VDPBF16PS had half the throughput of fma.
bool has_fast_bf16_dot() {
#if defined(__x86_64__)
  unsigned a = 0, b = 0, c = 0, d = 0;
  if (__get_cpuid_count(7, 0, &a, &b, &c, &d) == 0 || (d >> 22 & 1) != 0) return false;
  return __get_cpuid_count(7, 1, &a, &b, &c, &d) != 0 && (a >> 5 & 1) != 0;
#else
  return false;
#endif
}

}  // namespace

bool uses_bf16_dot(Target target) {
  static const bool fast = has_fast_bf16_dot();
  return fast && vectors_of(target) == Target::kAvx512Vnni;
}

}  // namespace veery
