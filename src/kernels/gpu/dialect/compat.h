// compat.h: the dialect of C++ in which GPU kernels are written: plain C++ on scalars, and the
// functions and macros below. nvcc compiles it for CUDA, Apple's compiler for Metal
// (compat_metal.h), and any C++ compiler for the emulator, where each thread of a block is a fibre.
#pragma once

// Floating-point rules of all kernels: products and sums are rounded separately (nvcc -fmad=false),
// divisions and square roots are rounded to nearest even, and every fused multiply-add is written
// as fma().
#if defined(__METAL_VERSION__)
#include "kernels/gpu/dialect/compat_metal.h"
#else
#include <cstdint>
#include <cstring>

// Memory spaces of pointers, references and constants. Only Metal needs them.
#define VEERY_DEVICE
#define VEERY_SHARED
#define VEERY_THREAD
#define VEERY_CONSTANT inline constexpr
#define VEERY_STATIC static constexpr
// On Metal a thread gets its index only as an argument of the kernel, so functions pass a
// ThreadContext along. These macros declare it as the last parameter, the last argument, a member,
// and the initialiser of that member. Elsewhere they are empty.
#define VEERY_CONTEXT
#define VEERY_CONTEXT_ARG
#define VEERY_CONTEXT_MEMBER
#define VEERY_CONTEXT_INIT
#endif
#if defined(__CUDACC__)
#define VEERY_GPU __device__ __forceinline__
#define VEERY_GPU_HOST __host__ __device__ __forceinline__
#define VEERY_GPU_PRAGMA(text) _Pragma(#text)
#define VEERY_UNROLL(n) VEERY_GPU_PRAGMA(unroll n)
#elif !defined(__METAL_VERSION__)
#define VEERY_GPU inline
#define VEERY_GPU_HOST inline
#define VEERY_UNROLL(n)
#include "kernels/gpu/dialect/emulator.h"
#endif

namespace veery::gpu {

VEERY_CONSTANT int kWarp = 32;

#if defined(__CUDACC__)

VEERY_GPU int thread() { return static_cast<int>(threadIdx.x); }
VEERY_GPU int threads() { return static_cast<int>(blockDim.x); }
VEERY_GPU int block_x() { return static_cast<int>(blockIdx.x); }
VEERY_GPU int block_y() { return static_cast<int>(blockIdx.y); }
VEERY_GPU int block_z() { return static_cast<int>(blockIdx.z); }
VEERY_GPU int blocks_x() { return static_cast<int>(gridDim.x); }
VEERY_GPU void sync_block() { __syncthreads(); }
VEERY_GPU void sync_warp() { __syncwarp(); }
/// Returns the shared memory of the block, 16-byte aligned. Its size is a parameter of the launch.
VEERY_GPU uint8_t* shared_memory() {
  extern __shared__ __align__(16) uint8_t memory[];
  return memory;
}
template <typename T>
VEERY_GPU T shuffle_xor(T value, int mask) {
  return __shfl_xor_sync(~0U, value, mask);
}
template <typename T>
VEERY_GPU T shuffle(T value, int lane) {
  return __shfl_sync(~0U, value, lane);
}
VEERY_GPU uint32_t ballot(bool predicate) { return __ballot_sync(~0U, predicate); }
VEERY_GPU int bit_count(uint32_t bits) { return __popc(bits); }
VEERY_GPU int leading_zeros(uint32_t bits) { return __clz(static_cast<int>(bits)); }
VEERY_GPU float fma(float a, float b, float c) { return __fmaf_rn(a, b, c); }
VEERY_GPU double fma(double a, double b, double c) { return __fma_rn(a, b, c); }
VEERY_GPU float square_root(float x) { return __fsqrt_rn(x); }
/// a / b rounded to nearest, if a, b and the quotient lie between 2^-110 and 2^110. These are the
/// instructions that nvcc generates for a / b, without the branch for other numbers, so that
/// several divisions overlap.
VEERY_GPU float divide_normal(float a, float b) {
  float inverse;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(inverse) : "f"(b));
  inverse = __fmaf_rn(inverse, __fmaf_rn(inverse, -b, 1.0F), inverse);
  const float near = __fmaf_rn(a, inverse, 0.0F);
  return __fmaf_rn(inverse, __fmaf_rn(near, -b, a), near);
}
// fma and product with subnormal operands and results flushed to 0.
VEERY_GPU float fma_ftz(float a, float b, float c) {
  float y;
  asm("fma.rn.ftz.f32 %0, %1, %2, %3;" : "=f"(y) : "f"(a), "f"(b), "f"(c));
  return y;
}
VEERY_GPU float mul_ftz(float a, float b) {
  float y;
  asm("mul.rn.ftz.f32 %0, %1, %2;" : "=f"(y) : "f"(a), "f"(b));
  return y;
}
/// Rounds to nearest even.
VEERY_GPU int round_to_int(float x) { return __float2int_rn(x); }
VEERY_GPU float bits_to_float(int32_t bits) { return __int_as_float(bits); }
VEERY_GPU double bits_to_double(int64_t bits) { return __longlong_as_double(bits); }
VEERY_GPU int32_t float_to_bits(float x) { return __float_as_int(x); }
VEERY_GPU int64_t float_to_bits(double x) { return __double_as_longlong(x); }
VEERY_GPU float f16_to_float(uint16_t bits) {
  float x;
  asm("cvt.f32.f16 %0, %1;" : "=f"(x) : "h"(bits));
  return x;
}
VEERY_GPU uint16_t float_to_f16(float x) {
  uint16_t bits;
  asm("cvt.rn.f16.f32 %0, %1;" : "=h"(bits) : "f"(x));
  return bits;
}
VEERY_GPU void atomic_max(uint64_t* at, uint64_t key) {
  atomicMax(reinterpret_cast<unsigned long long*>(at), static_cast<unsigned long long>(key));
}
/// Sets the condition of a conditional graph node: the loop's body runs again unless it is 0.
VEERY_GPU void set_graph_condition(uint64_t condition, uint32_t value) {
  cudaGraphSetConditional(condition, value);
}
/// Permits the next launch to begin (programmatic dependent launch).
VEERY_GPU void launch_dependents() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.launch_dependents;");
#endif
}
/// Waits until the writes of previous launches are visible, and permits the next launch to begin.
VEERY_GPU void wait_for_dependencies() {
  launch_dependents();
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}
/// Waits in the same way, but does not permit the next launch to begin before all blocks of this
/// one have ended: its blocks would be placed on the few SMs that this launch leaves free.
VEERY_GPU void wait_for_dependencies_only() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}
/// Makes the writes of launches that have ended visible, even where this SM has cached that memory.
VEERY_GPU void acquire_finished_launches() { asm volatile("fence.acq_rel.gpu;" ::: "memory"); }
/// Issues an asynchronous copy of 16 bytes to shared memory. Both addresses are multiples of 16.
VEERY_GPU void copy_async_16(uint8_t* shared, const uint8_t* from) {
  const auto to = static_cast<uint32_t>(__cvta_generic_to_shared(shared));
  asm volatile("cp.async.cg.shared.global.L2::128B [%0], [%1], 16;" ::"r"(to), "l"(from)
               : "memory");
}
/// Commits the copies that this thread has issued since the last call as a group, which may be
/// empty.
VEERY_GPU void commit_copies() { asm volatile("cp.async.commit_group;" ::: "memory"); }
/// Waits until at most kLeft of this thread's latest copy groups are in flight.
template <int kLeft>
VEERY_GPU void wait_for_copies() {
  asm volatile("cp.async.wait_group %0;" ::"n"(kLeft) : "memory");
}
/// A barrier in shared memory for bulk copies. One thread initialises it, then the block
/// synchronises. A phase completes when all bytes of one copy_bulk_pieces() of a warp, or of the
/// initialised number of arrivals (copy_bulk() or arrive()), have been written. The memory of a
/// barrier must not be reused until the launch ends: an H100 was observed to write the count long
/// after the last arrival.
using Mbarrier = uint64_t;
VEERY_GPU uint32_t shared_address(const void* shared) {
  return static_cast<uint32_t>(__cvta_generic_to_shared(shared));
}
VEERY_GPU void init_mbarrier(Mbarrier* mbarrier, int arrivals = kWarp) {
  asm volatile("mbarrier.init.shared.b64 [%0], %1;" ::"r"(shared_address(mbarrier)), "r"(arrivals)
               : "memory");
#if __CUDA_ARCH__ >= 900
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
#endif
}
/// The warp issues asynchronous copies of up to 32 pieces. piece_at(i) returns {to, from, bytes};
/// addresses and sizes are multiples of 16.
template <typename PieceAt>
VEERY_GPU void copy_bulk_pieces(Mbarrier* mbarrier, int count, const PieceAt& piece_at) {
  const uint32_t at = shared_address(mbarrier);
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
#if __CUDA_ARCH__ >= 900
  if (lane < count) {
    const auto piece = piece_at(lane);
    asm volatile("mbarrier.arrive.expect_tx.shared.b64 _, [%0], %1;" ::"r"(at), "r"(piece.bytes)
                 : "memory");
    asm volatile(
        "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::
            "r"(shared_address(piece.to)),
        "l"(piece.from), "r"(piece.bytes), "r"(at)
        : "memory");
  } else {
    asm volatile("mbarrier.arrive.shared.b64 _, [%0];" ::"r"(at) : "memory");
  }
#else
  for (int i = 0; i < count; ++i) {
    const auto piece = piece_at(i);
    for (int offset = lane * 16; offset < piece.bytes; offset += kWarp * 16)
      copy_async_16(piece.to + offset, piece.from + offset);
  }
  asm volatile("cp.async.mbarrier.arrive.noinc.shared.b64 [%0];" ::"r"(at) : "memory");
#endif
}
/// One thread issues the asynchronous copy of one piece.
VEERY_GPU void copy_bulk(Mbarrier* mbarrier, uint8_t* shared, const uint8_t* from, int bytes) {
  const uint32_t at = shared_address(mbarrier);
#if __CUDA_ARCH__ >= 900
  asm volatile(
      "mbarrier.arrive.expect_tx.shared.b64 _, [%0], %3;\n"
      "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%1], [%2], %3, [%0];" ::
          "r"(at),
      "r"(shared_address(shared)), "l"(from), "r"(bytes)
      : "memory");
#else
  for (int offset = 0; offset < bytes; offset += 16) copy_async_16(shared + offset, from + offset);
  asm volatile("cp.async.mbarrier.arrive.noinc.shared.b64 [%0];" ::"r"(at) : "memory");
#endif
}
/// Initialises a barrier for copy_bulk_by_warp().
VEERY_GPU void init_tile_mbarrier(Mbarrier* mbarrier) {
#if __CUDA_ARCH__ >= 900
  init_mbarrier(mbarrier, 1);
#else
  init_mbarrier(mbarrier);
#endif
}
/// A warp issues the asynchronous copy of one piece.
VEERY_GPU void copy_bulk_by_warp(Mbarrier* mbarrier, uint8_t* shared, const uint8_t* from,
                                 int bytes) {
#if __CUDA_ARCH__ >= 900
  if (threadIdx.x % kWarp == 0) copy_bulk(mbarrier, shared, from, bytes);
#else
  for (int offset = static_cast<int>(threadIdx.x) % kWarp * 16; offset < bytes;
       offset += kWarp * 16)
    copy_async_16(shared + offset, from + offset);
  asm volatile("cp.async.mbarrier.arrive.noinc.shared.b64 [%0];" ::"r"(shared_address(mbarrier))
               : "memory");
#endif
}
/// A warp issues the asynchronous copy of the piece that lane `of` passes; the arguments of other
/// lanes are ignored.
VEERY_GPU void copy_bulk_from_lane(int of, Mbarrier* mbarrier, uint8_t* shared, const uint8_t* from,
                                   int bytes) {
#if __CUDA_ARCH__ >= 900
  if (threadIdx.x % kWarp == static_cast<unsigned>(of)) copy_bulk(mbarrier, shared, from, bytes);
#else
  const auto address = shuffle(reinterpret_cast<unsigned long long>(from), of);
  copy_bulk_by_warp(mbarrier, shared, reinterpret_cast<const uint8_t*>(address),
                    shuffle(bytes, of));
#endif
}
/// Waits until a phase, counted from 0, is complete.
VEERY_GPU void wait_for_phase(Mbarrier* mbarrier, int phase) {
  const uint32_t at = shared_address(mbarrier);
#if __CUDA_ARCH__ >= 900
  asm volatile(
      "{\n.reg .pred p;\nL_%=: mbarrier.try_wait.parity.shared.b64 p, [%0], %1;\n@!p bra "
      "L_%=;\n}" ::"r"(at),
      "r"(phase & 1)
      : "memory");
#else
  asm volatile(
      "{\n.reg .pred p;\nL_%=: mbarrier.test_wait.parity.shared.b64 p, [%0], %1;\n@!p bra "
      "L_%=;\n}" ::"r"(at),
      "r"(phase & 1)
      : "memory");
#endif
}
/// Arrives at the barrier. Threads that wait for the phase see all that this thread wrote before.
VEERY_GPU void arrive(Mbarrier* mbarrier) {
  asm volatile("mbarrier.arrive.shared.b64 _, [%0];" ::"r"(shared_address(mbarrier)) : "memory");
}
/// Increments a counter in shared memory. Returns its previous value.
VEERY_GPU int32_t count_arrival(int32_t* counter) {
  int32_t before;
  asm volatile("atom.acq_rel.cta.shared.add.s32 %0, [%1], 1;"
               : "=r"(before)
               : "r"(shared_address(counter))
               : "memory");
  return before;
}
/// Increments a counter in device memory. The block that arrives last sees all that the others
/// wrote before they arrived.
VEERY_GPU uint32_t count_arrival_on_device(uint32_t* counter) {
  uint32_t before;
  asm volatile("atom.acq_rel.gpu.global.add.u32 %0, [%1], 1;"
               : "=r"(before)
               : "l"(counter)
               : "memory");
  return before;
}
/// c += a b, computed by a warp: a is [16][32] int8, b is [32][8] int8, c is [16][8] int32. With
/// g = lane / 4 and t = lane % 4 a lane holds
///   a[0], a[1]   columns 4 t to 4 t + 3 of rows g and g + 8 of a; a[2], a[3]: 16 columns further
///   b0, b1       rows 4 t to 4 t + 3 of column g of b; b1: 16 rows further
///   c[0], c[1]   columns 2 t and 2 t + 1 of row g of c; c[2], c[3]: of row g + 8
VEERY_GPU void mma_m16n8k32_s8(int32_t (&c)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1) {
  asm volatile(
      "mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 {%0,%1,%2,%3},{%4,%5,%6,%7},{%8,%9},"
      "{%0,%1,%2,%3};"
      : "+r"(c[0]), "+r"(c[1]), "+r"(c[2]), "+r"(c[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}
/// c = a b, computed by a warp: a is [16][16] f16, b is [16][8] f16; products and sums must be
/// integers below 2^24. Lanes hold a, b and c as in mma_m16n8k32_s8(), with columns 2 t and 2 t + 1
/// of a in a[0] and a[1], and 8 columns further in a[2] and a[3].
VEERY_GPU void mma_m16n8k16_f16_zero(float (&c)[4], const uint32_t (&a)[4], uint32_t b0,
                                     uint32_t b1) {
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3},{%4,%5,%6,%7},{%8,%9},"
      "{%10,%10,%10,%10};"
      : "=f"(c[0]), "=f"(c[1]), "=f"(c[2]), "=f"(c[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1), "f"(0.0F));
}
/// c += a b, computed by a warp, with bf16 operands in the order of mma_m16n8k16_f16_zero(). The
/// GPU adds the 16 products and the previous value of an element in an unspecified order.
VEERY_GPU void mma_m16n8k16_bf16(float (&c)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1) {
  asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3},{%4,%5,%6,%7},{%8,%9},"
      "{%0,%1,%2,%3};"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}
/// Converts the two lower bytes, unsigned, to f16.
VEERY_GPU uint32_t bytes_to_f16x2(uint32_t bytes) {
  // The f16 with the bits 0x6400 + byte is 1024 + byte.
  uint32_t y = __byte_perm(bytes, 0x64646464U, 0x4140);
  asm("sub.rn.f16x2 %0, %0, %1;" : "+r"(y) : "r"(0x64006400U));
  return y;
}
/// Multiplies two f16 by 64.
VEERY_GPU uint32_t f16x2_times_64(uint32_t halves) {
  uint32_t y;
  asm("mul.rn.f16x2 %0, %1, %2;" : "=r"(y) : "r"(halves), "r"(0x54005400U));
  return y;
}
/// Sets bits of a word in shared memory.
VEERY_GPU void atomic_or(uint32_t* word, uint32_t bits) { atomicOr(word, bits); }
/// Rounds two numbers to bf16, to nearest even.
VEERY_GPU void round_pair_to_bf16(float& x, float& y) {
  uint32_t pair;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(y), "f"(x));
  x = __uint_as_float(pair << 16);
  y = __uint_as_float(pair & 0xffff0000U);
}
/// c = a b plus `first` in columns 2 t and `second` in columns 2 t + 1.
VEERY_GPU void mma_m16n8k32_s8_from(int32_t (&c)[4], const uint32_t (&a)[4], uint32_t b0,
                                    uint32_t b1, int32_t first, int32_t second) {
  asm volatile(
      "mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 {%0,%1,%2,%3},{%4,%5,%6,%7},{%8,%9},"
      "{%10,%11,%10,%11};"
      : "=r"(c[0]), "=r"(c[1]), "=r"(c[2]), "=r"(c[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1), "r"(first), "r"(second));
}
/// c = a b with 16 columns of a: a0 and a1, b0.
VEERY_GPU void mma_m16n8k16_s8_zero(int32_t (&c)[4], uint32_t a0, uint32_t a1, uint32_t b0) {
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.s32.s8.s8.s32 {%0,%1,%2,%3},{%4,%5},{%6},"
      "{%7,%7,%7,%7};"
      : "=r"(c[0]), "=r"(c[1]), "=r"(c[2]), "=r"(c[3])
      : "r"(a0), "r"(a1), "r"(b0), "r"(0));
}
/// Return byte i of a word, unsigned and signed.
VEERY_GPU int byte_of(uint32_t word, int i) {
  return static_cast<int>(__byte_perm(word, 0, 0x4440 + i));
}
VEERY_GPU int signed_byte_of(uint32_t word, int i) {
  int y;
  asm("prmt.b32 %0, %1, 0, %2;" : "=r"(y) : "r"(word), "r"(0x8880 + 0x1111 * i));
  return y;
}
/// Packs the lowest bytes of four words.
VEERY_GPU uint32_t pack_low_bytes(const uint32_t (&words)[4]) {
  return __byte_perm(__byte_perm(words[0], words[1], 0x0040),
                     __byte_perm(words[2], words[3], 0x0040), 0x5410);
}
/// Returns `sum` plus the four signed bytes of a word.
VEERY_GPU int32_t add_bytes_s8(uint32_t word, int32_t sum) {
  return __dp4a(static_cast<int>(word), 0x01010101, sum);
}
/// c += a b with 16 columns of a.
VEERY_GPU void mma_m16n8k16_s8(int32_t (&c)[4], uint32_t a0, uint32_t a1, uint32_t b0) {
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.s32.s8.s8.s32 {%0,%1,%2,%3},{%4,%5},{%6},{%0,%1,%2,%3};"
      : "+r"(c[0]), "+r"(c[1]), "+r"(c[2]), "+r"(c[3])
      : "r"(a0), "r"(a1), "r"(b0));
}

#elif !defined(__METAL_VERSION__)

VEERY_GPU float fma(float a, float b, float c) { return __builtin_fmaf(a, b, c); }
VEERY_GPU double fma(double a, double b, double c) { return __builtin_fma(a, b, c); }
VEERY_GPU float square_root(float x) { return __builtin_sqrtf(x); }
VEERY_GPU int round_to_int(float x) { return static_cast<int>(__builtin_nearbyintf(x)); }
VEERY_GPU float bits_to_float(int32_t bits) { return __builtin_bit_cast(float, bits); }
VEERY_GPU double bits_to_double(int64_t bits) { return __builtin_bit_cast(double, bits); }
VEERY_GPU int32_t float_to_bits(float x) { return __builtin_bit_cast(int32_t, x); }
VEERY_GPU int64_t float_to_bits(double x) { return __builtin_bit_cast(int64_t, x); }
VEERY_GPU int bit_count(uint32_t bits) { return __builtin_popcount(bits); }
/// `bits` is not 0.
VEERY_GPU int leading_zeros(uint32_t bits) { return __builtin_clz(bits); }
VEERY_GPU void launch_dependents() {}
VEERY_GPU void wait_for_dependencies() {}
VEERY_GPU void wait_for_dependencies_only() {}
VEERY_GPU void acquire_finished_launches() {}

#endif

/// Replaces subnormal numbers by 0 of the same sign.
VEERY_GPU float flush_subnormal(float x) {
  return (float_to_bits(x) & 0x7f800000) == 0 ? bits_to_float(float_to_bits(x) & INT32_MIN) : x;
}
#if !defined(__CUDACC__)
VEERY_GPU float divide_normal(float a, float b) { return a / b; }
VEERY_GPU float fma_ftz(float a, float b, float c) {
  return flush_subnormal(fma(flush_subnormal(a), flush_subnormal(b), flush_subnormal(c)));
}
VEERY_GPU float mul_ftz(float a, float b) {
  return flush_subnormal(flush_subnormal(a) * flush_subnormal(b));
}
#endif

#if !defined(__METAL_VERSION__)
VEERY_GPU int lane() { return thread() % kWarp; }
VEERY_GPU int warp() { return thread() / kWarp; }
VEERY_GPU int warps() { return threads() / kWarp; }
#endif

template <typename T>
struct alignas(sizeof(T) * 2) Two {
  T x, y;
};
template <typename T>
struct alignas(sizeof(T) * 4) Four {
  T x, y, z, w;
};
#if defined(__METAL_VERSION__)
// Loads of two or four numbers as a vector.
template <typename V>
struct Loaded;
template <typename T>
struct Loaded<Two<T>> {
  static VEERY_GPU Two<T> from(const VEERY_DEVICE void* at) {
    const vec<T, 2> v = *static_cast<const VEERY_DEVICE vec<T, 2>*>(at);
    return {v.x, v.y};
  }
  static VEERY_GPU Two<T> from_shared(const VEERY_SHARED void* at) {
    const vec<T, 2> v = *static_cast<const VEERY_SHARED vec<T, 2>*>(at);
    return {v.x, v.y};
  }
};
template <typename T>
struct Loaded<Four<T>> {
  static VEERY_GPU Four<T> from(const VEERY_DEVICE void* at) {
    const vec<T, 4> v = *static_cast<const VEERY_DEVICE vec<T, 4>*>(at);
    return {v.x, v.y, v.z, v.w};
  }
  static VEERY_GPU Four<T> from_shared(const VEERY_SHARED void* at) {
    const vec<T, 4> v = *static_cast<const VEERY_SHARED vec<T, 4>*>(at);
    return {v.x, v.y, v.z, v.w};
  }
};
template <typename V>
VEERY_GPU V load(const VEERY_DEVICE void* at) {
  return Loaded<V>::from(at);
}
template <typename V>
VEERY_GPU V load_shared(const VEERY_SHARED void* at) {
  return Loaded<V>::from_shared(at);
}
#else
template <typename V>
VEERY_GPU V load(const void* at) {
  return *static_cast<const V*>(at);
}
/// Loads a vector from shared memory.
template <typename V>
VEERY_GPU V load_shared(const void* at) {
  return load<V>(at);
}
/// f64. On Metal it is emulated in software (soft_f64.h), and constants are given by their bits.
using Float64 = double;
VEERY_GPU Float64 to_f64(int x) { return x; }
VEERY_GPU Float64 to_f64(float x) { return x; }
VEERY_GPU float to_f32(Float64 x) { return static_cast<float>(x); }
/// Whether pointers to shared and to device memory have the same type.
inline constexpr bool kGenericPointers = true;
/// Whether thread blocks of a launch may read what its other blocks have written
/// (count_arrival_on_device()).
inline constexpr bool kBlocksExchange = true;
/// Whether bf16 tensor cores are available.
inline constexpr bool kHasTensorCores = true;
/// Returns the address to read x from after it has been staged in shared memory.
VEERY_GPU const float* staged_pointer(const float* shared, const float*) { return shared; }
#endif

VEERY_GPU float bf16_to_float(uint16_t bits) {
  return bits_to_float(static_cast<int32_t>(static_cast<uint32_t>(bits) << 16));
}
/// Rounds to nearest even; NaN stays NaN.
VEERY_GPU uint16_t float_to_bf16(float x) {
  const auto bits = static_cast<uint32_t>(float_to_bits(x));
  if ((bits & 0x7fffffffU) > 0x7f800000U) return static_cast<uint16_t>((bits >> 16) | 0x40U);
  return static_cast<uint16_t>((bits + 0x7fffU + ((bits >> 16) & 1U)) >> 16);
}

#if !defined(__CUDACC__) && !defined(__METAL_VERSION__)
VEERY_GPU void round_pair_to_bf16(float& x, float& y) {
  x = bf16_to_float(float_to_bf16(x));
  y = bf16_to_float(float_to_bf16(y));
}
#endif

/// Moves the code of the condition out of line.
VEERY_GPU bool unlikely(bool condition) { return __builtin_expect(condition, false); }

VEERY_GPU float magnitude(float x) { return bits_to_float(float_to_bits(x) & 0x7fffffff); }
VEERY_GPU float negative(float x) { return bits_to_float(float_to_bits(x) ^ INT32_MIN); }
// Return the second operand if either is NaN, as in kernels/cpu/simd.
VEERY_GPU float max_f32(float a, float b) { return a > b ? a : b; }
VEERY_GPU float min_f32(float a, float b) { return a < b ? a : b; }
VEERY_GPU float warp_max(float x) {
  for (int mask = 16; mask > 0; mask /= 2) x = max_f32(x, shuffle_xor(x, mask));
  return x;
}
VEERY_GPU int32_t warp_sum(int32_t x) {
  for (int mask = 16; mask > 0; mask /= 2) x += shuffle_xor(x, mask);
  return x;
}
/// Returns the sum of 16 lanes in the order of kernels/cpu/simd: lane i plus i + 8, + 4, + 2, + 1.
VEERY_GPU float sum_16_lanes(float x) {
  for (int mask = 8; mask > 0; mask /= 2) x = x + shuffle_xor(x, mask);
  return x;
}

}  // namespace veery::gpu
