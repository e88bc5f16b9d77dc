// wgmma.h: asynchronous matrix products of a warpgroup, which is four warps (wgmma, compute
// capability 9.0), and thread block clusters.
#pragma once
#include "kernels/gpu/dialect/compat.h"

namespace veery::gpu {

#if defined(__CUDACC__)

#define VEERY_SUMS(n) "+r"(c[n][0]), "+r"(c[n][1]), "+r"(c[n][2]), "+r"(c[n][3])
#define VEERY_FLOATS(n) "+f"(c[n][0]), "+f"(c[n][1]), "+f"(c[n][2]), "+f"(c[n][3])
#define VEERY_FLOATS_OF_4(n) \
  VEERY_FLOATS(n), VEERY_FLOATS(n + 1), VEERY_FLOATS(n + 2), VEERY_FLOATS(n + 3)
#define VEERY_FLOATS_OF_16 \
  VEERY_FLOATS_OF_4(0), VEERY_FLOATS_OF_4(4), VEERY_FLOATS_OF_4(8), VEERY_FLOATS_OF_4(12)
#define VEERY_SUMS_OF_4 VEERY_SUMS(0), VEERY_SUMS(1), VEERY_SUMS(2), VEERY_SUMS(3)
#define VEERY_SUMS_OF_8 VEERY_SUMS_OF_4, VEERY_SUMS(4), VEERY_SUMS(5), VEERY_SUMS(6), VEERY_SUMS(7)

/// Returns the descriptor of a B operand in shared memory. Core matrices of 8 rows x 16 bytes (128
/// bytes each) are contiguous along the columns; groups of 8 rows are `stride` bytes apart.
VEERY_GPU uint64_t wgmma_descriptor(const uint8_t* at, int stride) {
  constexpr uint64_t kPiece = 128;
  return (shared_address(at) & 0x3ffffU) >> 4 | kPiece >> 4 << 16 |
         static_cast<uint64_t>(stride >> 4) << 32;
}
/// Issues one of the products of wgmma_u8s8_pair(). kAdds: adds to c.
template <bool kAdds>
VEERY_GPU void wgmma_u8s8(int32_t (&c)[8][4], const uint32_t (&a)[4], uint64_t rows) {
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
  asm volatile(
      "{\n.reg .pred p;\nsetp.ne.b32 p, %37, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n64k32.s32.u8.s8 {%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,"
      "%12,%13,%14,%15,%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,%26,%27,%28,%29,%30,%31},"
      "{%32,%33,%34,%35},%36,p;\n}"
      : VEERY_SUMS_OF_8
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(rows), "n"(kAdds ? 1 : 0));
#endif
}
template <bool kAdds>
VEERY_GPU void wgmma_u8s8(int32_t (&c)[4][4], const uint32_t (&a)[4], uint64_t rows) {
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
  asm volatile(
      "{\n.reg .pred p;\nsetp.ne.b32 p, %21, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n32k32.s32.u8.s8 {%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,"
      "%12,%13,%14,%15},{%16,%17,%18,%19},%20,p;\n}"
      : VEERY_SUMS_OF_4
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(rows), "n"(kAdds ? 1 : 0));
#endif
}
/// A warpgroup issues c = a x + b y. a and b are [64][32] uint8; warp w holds rows 16 w to 16 w +
/// 15 as in mma_m16n8k32_s8(). x and y are 32 int8 columns of 64 (or 32) rows in shared memory, as
/// core matrices of [8 rows][16 columns], those of x before those of y; groups of 8 rows are
/// `stride` bytes apart. c[n] receives the sums of rows 8 n to 8 n + 7 of x in the order of
/// mma_m16n8k32_s8(). All four warps call it, and none may read c before wgmma_wait_int().
template <int kGroups>
VEERY_GPU void wgmma_u8s8_pair(int32_t (&c)[kGroups][4], const uint32_t (&a)[4],
                               const uint32_t (&b)[4], const uint8_t* x, int stride) {
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
  const uint64_t rows = wgmma_descriptor(x, stride);
  asm volatile("wgmma.fence.sync.aligned;");
  wgmma_u8s8<false>(c, a, rows);
  wgmma_u8s8<true>(c, b, rows + (256 >> 4));
  asm volatile("wgmma.commit_group.sync.aligned;");
#endif
}
/// Waits for all issued products.
VEERY_GPU void wgmma_wait_int(int32_t (&c)[8][4]) {
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
  asm volatile("wgmma.wait_group.sync.aligned 0;" : VEERY_SUMS_OF_8);
#endif
}
VEERY_GPU void wgmma_wait_int(int32_t (&c)[4][4]) {
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
  asm volatile("wgmma.wait_group.sync.aligned 0;" : VEERY_SUMS_OF_4);
#endif
}
/// A warpgroup issues c = a x, or c += a x if `adds`. a is [64][16] bf16; warp w holds rows 16 w to
/// 16 w + 15 as in mma_m16n8k16_bf16(). x is [128 rows][16 columns] bf16 in shared memory, as core
/// matrices of [8 rows][8 columns], those of the first 8 columns before those of the last 8; groups
/// of 8 rows are `stride` bytes apart. c[n] receives the sums of rows 8 n to 8 n + 7 of x in the
/// order and with the bits of mma_m16n8k16_bf16(). All four warps call it, and none may write a or
/// read c before wgmma_wait().
VEERY_GPU void wgmma_bf16(float (&c)[16][4], const uint32_t (&a)[4], const uint8_t* x, int stride,
                          bool adds) {
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
  asm volatile(
      "{\n.reg .pred p;\nsetp.ne.b32 p, %69, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n128k16.f32.bf16.bf16 {"
      "%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,%16,%17,%18,%19,%20,%21,%22,"
      "%23,%24,%25,%26,%27,%28,%29,%30,%31,%32,%33,%34,%35,%36,%37,%38,%39,%40,%41,%42,%43,"
      "%44,%45,%46,%47,%48,%49,%50,%51,%52,%53,%54,%55,%56,%57,%58,%59,%60,%61,%62,%63"
      "},{%64,%65,%66,%67},%68,p,1,1,0;\n}"
      : VEERY_FLOATS_OF_16
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(wgmma_descriptor(x, stride)),
        "r"(adds ? 1 : 0));
#endif
}
/// Must be called before wgmma_bf16() if a or c have been written since the last call of it.
VEERY_GPU void wgmma_fence() {
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
  asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
#endif
}
/// Commits the products issued since the last call as a group.
VEERY_GPU void wgmma_commit() {
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
  asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
#endif
}
/// Waits until at most kLeft of the latest groups are in flight.
template <int kLeft>
VEERY_GPU void wgmma_wait(float (&c)[16][4]) {
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
  asm volatile("wgmma.wait_group.sync.aligned %64;" : VEERY_FLOATS_OF_16 : "n"(kLeft) : "memory");
#endif
}
/// Keeps the registers of operand `a` alive up to this call, which follows the wait for its group.
VEERY_GPU void keep_alive(const uint32_t (&a)[4]) {
  asm volatile("" ::"r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]));
}
#undef VEERY_FLOATS
#undef VEERY_FLOATS_OF_4
#undef VEERY_FLOATS_OF_16
#undef VEERY_SUMS
#undef VEERY_SUMS_OF_4
#undef VEERY_SUMS_OF_8

// Thread block clusters, whose copies may be multicast to the shared memory of all their blocks.

VEERY_GPU int cluster_rank() {
  uint32_t rank;
  asm("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
  return static_cast<int>(rank);
}
VEERY_GPU int cluster_blocks() {
  uint32_t blocks;
  asm("mov.u32 %0, %%cluster_nctarank;" : "=r"(blocks));
  return static_cast<int>(blocks);
}
/// Synchronises all threads of all blocks of the cluster.
VEERY_GPU void sync_cluster() {
  asm volatile("barrier.cluster.arrive.aligned;\nbarrier.cluster.wait.aligned;" ::: "memory");
}
/// Arrives at the mbarrier of block `rank` that has the address of this one. It permits that block
/// to overwrite what this thread has read, and does not publish this thread's writes.
VEERY_GPU void arrive_remote(Mbarrier* mbarrier, int rank) {
  asm volatile(
      "{\n.reg .b32 at;\nmapa.shared::cluster.u32 at, %0, %1;\n"
      "mbarrier.arrive.shared::cluster.b64 _, [at];\n}" ::"r"(shared_address(mbarrier)),
      "r"(rank)
      : "memory");
}
/// One thread arrives and announces the bytes that the copy_bulk_multicast() calls of all blocks
/// will write.
VEERY_GPU void expect_bytes(Mbarrier* mbarrier, int bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared.b64 _, [%0], %1;" ::"r"(shared_address(mbarrier)),
               "r"(bytes)
               : "memory");
}
/// Copies to the same address in all blocks of the cluster, and signals the mbarrier of each.
VEERY_GPU void copy_bulk_multicast(Mbarrier* mbarrier, uint8_t* shared, const uint8_t* from,
                                   int bytes) {
  asm volatile(
      "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster [%0], "
      "[%1], %2, [%3], %4;" ::"r"(shared_address(shared)),
      "l"(from), "r"(bytes), "r"(shared_address(mbarrier)),
      "h"(static_cast<uint16_t>((1 << cluster_blocks()) - 1))
      : "memory");
}

#else

template <int kGroups>
void wgmma_u8s8_pair(int32_t (&c)[kGroups][4], const uint32_t (&a)[4], const uint32_t (&b)[4],
                     const uint8_t* x, int stride) {
  const uint32_t words[8] = {a[0], a[1], a[2], a[3], b[0], b[1], b[2], b[3]};
  std::memcpy(emulated::exchanged(thread()), words, sizeof words);
  sync_warp();
  const uint8_t* first = emulated::exchanged(thread() / 32 * 32);
  const int g = thread() % 32 / 4, t = thread() % 4;
  for (int n = 0; n < kGroups; ++n)
    for (int i = 0; i < 4; ++i) {
      c[n][i] = 0;
      for (int k = 0; k < 64; ++k) {
        const int column = k % 32;
        const uint8_t own = first[(4 * g + column % 16 / 4) * 32 +
                                  (k / 32 * 4 + column / 16 * 2 + i / 2) * 4 + column % 4];
        const auto other =
            static_cast<int8_t>(x[n * stride + k / 16 * 128 + (2 * t + i % 2) * 16 + column % 16]);
        // Unsigned, so that overflow wraps as on a GPU: sums of absent rows start with arbitrary
        // values.
        c[n][i] = static_cast<int32_t>(static_cast<uint32_t>(c[n][i]) +
                                       static_cast<uint32_t>(int{own} * int{other}));
      }
    }
  sync_warp();
}
template <int kGroups>
void wgmma_wait_int(int32_t (&)[kGroups][4]) {}

/// Accumulates each row of x as in mma_m16n8k16_f16_zero().
inline void wgmma_bf16(float (&c)[16][4], const uint32_t (&a)[4], const uint8_t* x, int stride,
                       bool adds) {
  std::memcpy(emulated::exchanged(thread()), a, sizeof a);
  sync_warp();
  const uint8_t* first = emulated::exchanged(thread() / 32 * 32);
  const int g = thread() % 32 / 4, t = thread() % 4;
  const auto number = [](const uint8_t* at) {
    uint16_t bits;
    std::memcpy(&bits, at, 2);
    return double{bf16_to_f32(bits)};
  };
  for (int n = 0; n < 16; ++n)
    for (int i = 0; i < 4; ++i) {
      double sum = adds ? c[n][i] : 0;
      for (int k = 0; k < 16; ++k)
        sum += number(first + (4 * g + k % 8 / 2) * 32 + (2 * (k / 8) + i / 2) * 4 + k % 2 * 2) *
               number(x + n * stride + k / 8 * 128 + (2 * t + i % 2) * 16 + k % 8 * 2);
      c[n][i] = static_cast<float>(sum);
    }
  sync_warp();
}
inline void wgmma_fence() {}
inline void wgmma_commit() {}
template <int kLeft>
void wgmma_wait(float (&)[16][4]) {}
inline void keep_alive(const uint32_t (&)[4]) {}

// Emulated clusters have one block.
inline int cluster_rank() { return 0; }
inline int cluster_blocks() { return 1; }
inline void sync_cluster() { sync_block(); }
inline void arrive_remote(Mbarrier* mbarrier, int) { arrive(mbarrier); }
inline void expect_bytes(Mbarrier*, int) {}
inline void copy_bulk_multicast(Mbarrier* mbarrier, uint8_t* shared, const uint8_t* from,
                                int bytes) {
  copy_bulk(mbarrier, shared, from, bytes);
}

#endif

}  // namespace veery::gpu
