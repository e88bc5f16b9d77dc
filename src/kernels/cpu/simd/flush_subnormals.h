// flush_subnormals.h: f32 arithmetic with subnormal numbers flushed to 0, as VDPBF16PS does.
#pragma once
#include <cstdint>

#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

namespace veery {

/// While an object exists, subnormal operands and results of this thread's f32 arithmetic are
/// flushed to 0. Operands must be loaded and results stored inside its lifetime, because the
/// compiler may move arithmetic on registers, but not memory accesses, across the mode change.
class FlushSubnormals {
 public:
#if defined(__x86_64__)
  FlushSubnormals() : before_(_mm_getcsr()) { set(before_ | kFlushToZero | kSubnormalsAreZeros); }
  ~FlushSubnormals() { set(before_); }
#elif defined(__aarch64__)
  FlushSubnormals() {
    asm volatile("mrs %0, fpcr" : "=r"(before_));
    set(before_ | kFlushToZero);
  }
  ~FlushSubnormals() { set(before_); }
#else
  FlushSubnormals() {}
#endif
  FlushSubnormals(const FlushSubnormals&) = delete;
  FlushSubnormals& operator=(const FlushSubnormals&) = delete;

 private:
#if defined(__x86_64__)
  static constexpr unsigned kSubnormalsAreZeros = 1U << 6;  // MXCSR (Intel SDM volume 1, 10.2.3)
  static constexpr unsigned kFlushToZero = 1U << 15;
  static void set(unsigned mode) {
    asm volatile("" ::: "memory");
    _mm_setcsr(mode);
    asm volatile("" ::: "memory");
  }
  unsigned before_;
#elif defined(__aarch64__)
  static constexpr uint64_t kFlushToZero = uint64_t{1} << 24;  // FPCR.FZ (Arm ARM C5.2.8)
  static void set(uint64_t mode) { asm volatile("msr fpcr, %0" ::"r"(mode) : "memory"); }
  uint64_t before_;
#endif
};

}  // namespace veery
