// compat_metal.h: the dialect for version 4 of the Metal Shading Language (see its specification).
// Pointers and references name their memory space. Metal has no double, no 64-bit atomics and no
// asynchronous copies. compat.h documents the functions.
#pragma once
#include <metal_stdlib>

using namespace metal;

// No contraction or reordering; divisions and square roots are rounded to nearest even.
#pragma METAL fp math_mode(safe)
#pragma METAL fp contract(off)

#define VEERY_GPU inline __attribute__((always_inline))
#define VEERY_GPU_HOST VEERY_GPU
#define VEERY_GPU_PRAGMA(text) _Pragma(#text)
#define VEERY_UNROLL(n) VEERY_GPU_PRAGMA(unroll n)

#define VEERY_DEVICE device
#define VEERY_SHARED threadgroup
#if !defined(VEERY_THREAD)  // tests/support/metal_shim defines it: `thread` is a name in C++
#define VEERY_THREAD thread
#endif
#define VEERY_CONSTANT constant constexpr
#define VEERY_STATIC static constant constexpr
#define VEERY_CONTEXT , const VEERY_THREAD ThreadContext& context
#define VEERY_CONTEXT_ARG , context
#define VEERY_CONTEXT_MEMBER const VEERY_THREAD ThreadContext& context;
#define VEERY_CONTEXT_INIT context(context),

#if !defined(INT32_MIN)
#define INT32_MIN (-2147483647 - 1)
#endif

namespace veery::gpu {

/// The position of a thread, from the arguments of its kernel.
struct ThreadContext {
  int x, y, z, blocks_x;
  int own, count;                ///< index of the thread, threads of the block
  VEERY_SHARED uint8_t* memory;  ///< shared memory
};
// `thread` is a keyword unless a parenthesis follows.
#define thread() (context.own)
#define threads() (context.count)
#define block_x() (context.x)
#define block_y() (context.y)
#define block_z() (context.z)
#define blocks_x() (context.blocks_x)
#define shared_memory() (context.memory)
#define warp() (context.own / kWarp)
#define warps() (context.count / kWarp)

VEERY_GPU int lane() { return __metal_get_thread_index_in_simdgroup(ushort()); }
VEERY_GPU void sync_block() {
  threadgroup_barrier(mem_flags::mem_threadgroup | mem_flags::mem_device);
}
VEERY_GPU void sync_warp() {
  simdgroup_barrier(mem_flags::mem_threadgroup | mem_flags::mem_device);
}

template <typename T>
VEERY_GPU T shuffle(T value, int from) {
  return simd_shuffle(value, static_cast<ushort>(from));
}
VEERY_GPU uint64_t shuffle(uint64_t value, int from) {
  const uint32_t low = shuffle(static_cast<uint32_t>(value), from);
  return static_cast<uint64_t>(shuffle(static_cast<uint32_t>(value >> 32), from)) << 32 | low;
}
template <typename T>
VEERY_GPU T shuffle_xor(T value, int mask) {
  return shuffle(value, lane() ^ mask);
}
VEERY_GPU uint32_t ballot(bool predicate) { return simd_or(predicate ? 1U << lane() : 0U); }
VEERY_GPU int bit_count(uint32_t bits) { return static_cast<int>(popcount(bits)); }
VEERY_GPU int leading_zeros(uint32_t bits) { return static_cast<int>(clz(bits)); }

VEERY_GPU float fma(float a, float b, float c) { return metal::fma(a, b, c); }
VEERY_GPU float square_root(float x) { return precise::sqrt(x); }
VEERY_GPU int round_to_int(float x) { return static_cast<int>(rint(x)); }
VEERY_GPU float bits_to_float(int32_t bits) { return as_type<float>(bits); }
VEERY_GPU int32_t float_to_bits(float x) { return as_type<int32_t>(x); }
VEERY_GPU float f16_to_float(uint16_t bits) { return static_cast<float>(as_type<half>(bits)); }
VEERY_GPU uint16_t float_to_f16(float x) { return as_type<uint16_t>(static_cast<half>(x)); }

/// Launches do not overlap.
VEERY_GPU void wait_for_dependencies() {}
/// Never called: on Metal, products do not compute an argmax (GemmParams::argmax_keys).
VEERY_GPU void atomic_max(VEERY_DEVICE uint64_t*, uint64_t) {}

// Rows are not staged in shared memory, because a pointer has a fixed memory space and shared
// memory is small. Launches never request staging.
VEERY_CONSTANT bool kGenericPointers = false;
VEERY_GPU const VEERY_DEVICE float* staged_pointer(const VEERY_SHARED float*,
                                                   const VEERY_DEVICE float* x) {
  return x;
}
VEERY_GPU void copy_async_16(VEERY_SHARED uint8_t* shared, const VEERY_DEVICE uint8_t* from) {
  for (int i = 0; i < 16; ++i) shared[i] = from[i];
}
VEERY_GPU void commit_copies() {}
template <int kLeft>
VEERY_GPU void wait_for_copies() {}
// No kernel with bulk copies is compiled (kStaged).
using Mbarrier = uint64_t;
void init_mbarrier(VEERY_SHARED Mbarrier* mbarrier);
void wait_for_phase(VEERY_SHARED Mbarrier* mbarrier, int turn);
// Atomics order only themselves: a block's writes are visible to other blocks only in later
// launches.
VEERY_CONSTANT bool kBlocksExchange = false;
VEERY_GPU uint32_t count_arrival_on_device(VEERY_DEVICE uint32_t* counter) {
  return atomic_fetch_add_explicit(reinterpret_cast<VEERY_DEVICE atomic_uint*>(counter), 1U,
                                   memory_order_relaxed);
}
VEERY_CONSTANT bool kHasTensorCores = false;
void mma_m16n8k16_bf16(VEERY_THREAD float (&c)[4], const VEERY_THREAD uint32_t (&a)[4], uint32_t b0,
                       uint32_t b1);

/// Returns `sum` plus the products of the four signed bytes of a and b.
VEERY_GPU int32_t dot4_s8(int32_t sum, uint32_t a, uint32_t b) {
  const char4 x = as_type<char4>(a), y = as_type<char4>(b);
  sum += x.x * y.x;
  sum += x.y * y.y;
  sum += x.z * y.z;
  return sum + x.w * y.w;
}
// Emulates a tensor core: lanes exchange their parts of a and b by shuffles. The four lanes of a
// row of a hold its 16 or 32 bytes; so do the four lanes of a column of b.
VEERY_GPU void mma_m16n8k32_s8(VEERY_THREAD int32_t (&c)[4], const VEERY_THREAD uint32_t (&a)[4],
                               uint32_t b0, uint32_t b1) {
  const int g = lane() / 4, t = lane() % 4;
  VEERY_UNROLL(4)
  for (int k = 0; k < 4; ++k) {
    const int from = 4 * g + k;
    const uint32_t low = shuffle(a[0], from), high = shuffle(a[2], from);
    const uint32_t low_8 = shuffle(a[1], from), high_8 = shuffle(a[3], from);
    VEERY_UNROLL(2)
    for (int e = 0; e < 2; ++e) {
      const int column = 4 * (2 * t + e) + k;
      const uint32_t x = shuffle(b0, column), y = shuffle(b1, column);
      c[e] = dot4_s8(dot4_s8(c[e], low, x), high, y);
      c[2 + e] = dot4_s8(dot4_s8(c[2 + e], low_8, x), high_8, y);
    }
  }
}
VEERY_GPU void mma_m16n8k16_s8(VEERY_THREAD int32_t (&c)[4], uint32_t a0, uint32_t a1,
                               uint32_t b0) {
  const int g = lane() / 4, t = lane() % 4;
  VEERY_UNROLL(4)
  for (int k = 0; k < 4; ++k) {
    const uint32_t low = shuffle(a0, 4 * g + k), low_8 = shuffle(a1, 4 * g + k);
    VEERY_UNROLL(2)
    for (int e = 0; e < 2; ++e) {
      const uint32_t x = shuffle(b0, 4 * (2 * t + e) + k);
      c[e] = dot4_s8(c[e], low, x);
      c[2 + e] = dot4_s8(c[2 + e], low_8, x);
    }
  }
}

// 8 x 8 matrices that are distributed over the lanes of a simdgroup. The distribution is not
// documented, so elements are accessed through shared memory only.
using SimdgroupF16 = simdgroup_half8x8;
using SimdgroupF32 = simdgroup_float8x8;
VEERY_GPU void simdgroup_fill(VEERY_THREAD SimdgroupF32& m, float x) {
  m = make_filled_simdgroup_matrix<float, 8, 8>(x);
}
/// Loads 64 halves, row after row. The dialect passes the bits of halves as integers.
VEERY_GPU void simdgroup_load_tile(VEERY_THREAD SimdgroupF16& m,
                                   const VEERY_SHARED uint16_t* from) {
  simdgroup_load(m, reinterpret_cast<const VEERY_SHARED half*>(from), 8);
}
/// Loads 64 halves, column after column.
VEERY_GPU void simdgroup_load_tile_transposed(VEERY_THREAD SimdgroupF16& m,
                                              const VEERY_SHARED uint16_t* from) {
  simdgroup_load(m, reinterpret_cast<const VEERY_SHARED half*>(from), 8, ulong2(0, 0), true);
}
/// `stride`: elements per row.
VEERY_GPU void simdgroup_store_tile(const VEERY_THREAD SimdgroupF32& m, VEERY_SHARED float* to,
                                    int stride) {
  simdgroup_store(m, to, static_cast<uint64_t>(stride));
}
/// c + a b.
VEERY_GPU void simdgroup_mma(VEERY_THREAD SimdgroupF32& c, const VEERY_THREAD SimdgroupF16& a,
                             const VEERY_THREAD SimdgroupF16& b) {
  simdgroup_multiply_accumulate(c, a, b, c);
}
/// Converts four signed bytes to halves.
VEERY_GPU void store_bytes_as_f16(VEERY_SHARED uint16_t* at, uint32_t bytes) {
  const char4 x = as_type<char4>(bytes);
  const auto two = [](int8_t low, int8_t high) {
    return uint32_t{as_type<uint16_t>(static_cast<half>(low))} |
           uint32_t{as_type<uint16_t>(static_cast<half>(high))} << 16;
  };
  auto* words = reinterpret_cast<VEERY_SHARED uint32_t*>(at);
  words[0] = two(x.x, x.y), words[1] = two(x.z, x.w);
}

}  // namespace veery::gpu

#include "kernels/gpu/dialect/soft_f64.h"
