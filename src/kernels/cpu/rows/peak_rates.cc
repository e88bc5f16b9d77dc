// Loops that measure peak rates of a core: f32 fma, bf16 and int8 dot products, memory reads.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/rows/peak_rates.cc"
#include "kernels/cpu/simd/foreach_target.h"
#include "kernels/cpu/simd/simd-inl.h"
//
#include <cstring>
#include <utility>

#include "kernels/cpu/simd/bf16_dot.h"
#include "kernels/cpu/tiles/amx.h"
#include "kernels/peak_rates.h"

HWY_BEFORE_NAMESPACE();
namespace veery {
namespace HWY_NAMESPACE {
namespace {

// Independent accumulators: enough to hide the latency of an instruction, few enough to fit the
// registers together with their operands (with AVX2 a vector takes two registers).
#if HWY_TARGET == HWY_AVX3 || HWY_TARGET == HWY_AVX3_DL
constexpr int kAccumulators = 12;
#else
constexpr int kAccumulators = 6;
#endif
constexpr int kSteps = 8;  // updates of every accumulator per iteration

}  // namespace

double run_fma(int64_t iterations) {
  F32 sums[kAccumulators];
  unroll<kAccumulators>([&](auto i) { sums[i] = set(static_cast<float>(i)); });
  const F32 factor = set(0.75F), term = set(0.5F);
  for (int64_t n = 0; n < iterations; ++n)
    unroll<kSteps>([&](auto) {
      unroll<kAccumulators>([&](auto i) { sums[i] = fma(sums[i], factor, term); });
    });
  F32 all = zero();
  unroll<kAccumulators>([&](auto i) { all = add(all, sums[i]); });
  volatile float used = sum(all);  // keeps the compiler from removing the loop
  static_cast<void>(used);
  return static_cast<double>(iterations) * kSteps * kAccumulators * 16 * 2;
}

#if HWY_TARGET == HWY_AVX3_DL
double run_bf16(int64_t iterations) {
  F32 sums[kAccumulators];
  unroll<kAccumulators>([&](auto i) { sums[i] = set(static_cast<float>(i)); });
  const I32 a = set(int32_t{0x3f003f00}), b = set(int32_t{0x3e803e80});
  for (int64_t n = 0; n < iterations; ++n)
    unroll<kSteps>(
        [&](auto) { unroll<kAccumulators>([&](auto i) { sums[i] = dot2_bf16(sums[i], a, b); }); });
  F32 all = zero();
  unroll<kAccumulators>([&](auto i) { all = add(all, sums[i]); });
  volatile float used = sum(all);
  static_cast<void>(used);
  return static_cast<double>(iterations) * kSteps * kAccumulators * 16 * 4;
}
#else
double run_bf16(int64_t iterations) { return run_fma(iterations); }
#endif

double run_dot4(int64_t iterations) {
  alignas(64) uint8_t values[kSteps][kAccumulators][64];
  std::memset(values, 3, sizeof values);
  I32 sums[kAccumulators];
  unroll<kAccumulators>([&](auto i) { sums[i] = set(int32_t{i}); });  // distinct: no merging
  const I32 factor = set(int32_t{0x01ff02fe});
  for (int64_t n = 0; n < iterations; ++n)
    unroll<kSteps>([&](auto step) {
      unroll<kAccumulators>(
          [&](auto i) { sums[i] = dot4(sums[i], load_int(values[step][i]), factor); });
    });
  I32 all = zero_int();
  unroll<kAccumulators>([&](auto i) { all = add(all, sums[i]); });
  volatile int32_t used = sum(all);
  static_cast<void>(used);
  return static_cast<double>(iterations) * kSteps * kAccumulators * 16 * 4 * 2;
}

uint64_t read_bytes(const std::byte* data, size_t bytes) {
  I32 parts[4] = {zero_int(), zero_int(), zero_int(), zero_int()};
  size_t at = 0;
  for (; at + 256 <= bytes; at += 256)
    unroll<4>([&](auto i) { parts[i] = bit_xor(parts[i], load_int(data + at + 64 * i)); });
  uint64_t rest = 0;
  for (; at < bytes; ++at) rest += static_cast<uint64_t>(data[at]);
  const I32 all = add(add(parts[0], parts[1]), add(parts[2], parts[3]));
  return rest + static_cast<uint32_t>(sum(all));
}

}  // namespace HWY_NAMESPACE
}  // namespace veery
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace veery {
namespace {

#if defined(__x86_64__)

// Tile 0 is a panel, tile 1 token rows; six tiles of sums hide the latency of a tile product.
constexpr int kSums = 6;
constexpr TileConfig tiles_of_sums() {
  TileConfig config = full_tiles();
  config.rows[0] = kByteRowBytes / 4;
  config.row_bytes[1] = kByteRowBytes;
  return config;
}
// Not inlined, because tools/check_targets.py permits AMX instructions in it by its name.
template <int... kIndex>
[[gnu::noinline]] double multiply_tiles(int64_t iterations, std::integer_sequence<int, kIndex...>) {
  alignas(64) static constexpr std::byte kZeros[kTileBytes] = {};
  static constexpr TileConfig kConfig = tiles_of_sums();
  const AmxTiles tiles;
  tiles.configure(kConfig);
  tiles.load_bytes<0, kTileRowBytes>(kZeros);
  tiles.load_bytes<1, kByteRowBytes>(kZeros);
  (tiles.zero<2 + kIndex>(), ...);
  for (int64_t n = 0; n < iterations; ++n) (tiles.dot_bytes<2 + kIndex, 1, 0, false>(), ...);
  tiles.release();
  return static_cast<double>(iterations) * kSums * kTileRows * kTileRows * kByteRowBytes * 2;
}

double run_tiles(int64_t iterations) {
  return multiply_tiles(iterations, std::make_integer_sequence<int, kSums>());
}

#else

double run_tiles(int64_t) { return 0; }

#endif

}  // namespace

double fma_loop(Target target, int64_t iterations) {
  return VEERY_FOR_TARGET(target, run_fma)(iterations);
}

double bf16_loop(Target target, int64_t iterations) {
  if (!uses_bf16_dot(target)) return fma_loop(target, iterations);
  return VEERY_FOR_TARGET(target, run_bf16)(iterations);
}

double dot4_loop(Target target, int64_t iterations) {
  if (target == Target::kAmx && amx_usable()) return run_tiles(iterations);
  return VEERY_FOR_TARGET(target, run_dot4)(iterations);
}

uint64_t read_loop(Target target, const std::byte* data, size_t bytes) {
  return VEERY_FOR_TARGET(target, read_bytes)(data, bytes);
}

}  // namespace veery
#endif
