#include "kernels/cpu/tiles/amx.h"

#if defined(__x86_64__) && defined(__linux__)
#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "dtype/decode.h"
#endif

namespace veery {
namespace {

#if defined(__x86_64__) && defined(__linux__)

// Returns whether the processor has AMX with bf16 and int8 (CPUID leaf 7; Intel SDM volume 2A).
bool processor_has_it() {
  unsigned a = 0;
  unsigned b = 0;
  unsigned c = 0;
  unsigned d = 0;
  constexpr unsigned kBf16 = 1U << 22;
  constexpr unsigned kTile = 1U << 24;
  constexpr unsigned kInt8 = 1U << 25;
  constexpr unsigned kAll = kBf16 | kTile | kInt8;
  return __get_cpuid_count(7, 0, &a, &b, &c, &d) != 0 && (d & kAll) == kAll;
}

// Returns whether the system saves the tile configuration and tile data (XCR0).
bool system_keeps_it() {
  unsigned a = 0;
  unsigned b = 0;
  unsigned c = 0;
  unsigned d = 0;
  constexpr unsigned kOsxsave = 1U << 27;
  constexpr unsigned kTileState = 3U << 17;
  if (__get_cpuid(1, &a, &b, &c, &d) == 0 || (c & kOsxsave) == 0) return false;
  asm volatile("xgetbv" : "=a"(a), "=d"(d) : "c"(0));
  return (a & kTileState) == kTileState;
}

// Requests permission to use tile data (8 KiB of state) for all threads of the process; Linux
// requires that.
bool process_may_use_it() {
  constexpr long kRequestPermission = 0x1023;  // ARCH_REQ_XCOMP_PERM
  constexpr long kTileData = 18;
  return syscall(SYS_arch_prctl, kRequestPermission, kTileData) == 0;
}

uint16_t bf16_of(int value) { return f32_to_bf16(static_cast<float>(value)); }

// Self-test: compares a tile product of integers up to 127 with int arithmetic.
bool product_is_right() {
  alignas(64) uint16_t a[kTileRows][32];
  alignas(64) uint16_t b[16][kTileRows][2];
  alignas(64) float c[kTileRows][kTileRows];
  const auto left = [](int m, int k) { return (m * 37 + k * 11) % 255 - 127; };
  const auto right = [](int k, int n) { return (k * 29 + n * 53) % 255 - 127; };
  for (int i = 0; i < kTileRows; ++i)
    for (int k = 0; k < 32; ++k) {
      a[i][k] = bf16_of(left(i, k));
      b[k / 2][i][k % 2] = bf16_of(right(k, i));
    }
  constexpr TileConfig kConfig = full_tiles();
  const AmxTiles tiles;
  tiles.configure(kConfig);
  tiles.zero<0>();
  tiles.load<1>(a);
  tiles.load<2>(b);
  tiles.dot<0, 1, 2>();
  tiles.dot<0, 1, 2>();
  tiles.store<0>(c);
  tiles.release();
  bool right_sums = true;
  for (int m = 0; m < kTileRows; ++m)
    for (int n = 0; n < kTileRows; ++n) {
      int sum = 0;
      for (int k = 0; k < 32; ++k) sum += 2 * left(m, k) * right(k, n);
      right_sums = right_sums && c[m][n] == static_cast<float>(sum);
    }
  return right_sums;
}

const char* find_refusal() {
  if (!processor_has_it()) return "the processor has no AMX with bf16 and int8";
  if (!system_keeps_it()) return "the system does not save AMX state";
  if (!process_may_use_it()) return "the system refuses AMX to this process";
  if (!product_is_right()) return "AMX computes a wrong product";
  return "";
}

#else

const char* find_refusal() { return "AMX is supported on x86-64 Linux only"; }

#endif

}  // namespace

const char* amx_refusal() {
  static const char* const refusal = find_refusal();
  return refusal;
}

bool amx_usable() { return *amx_refusal() == '\0'; }

}  // namespace veery
