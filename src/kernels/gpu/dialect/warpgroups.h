// warpgroups.h: products by four warps together (compute capability 9.0: wgmma), which go on while
// the warps do something else.
#pragma once
#include "kernels/gpu/dialect/compat.h"

namespace veery::gpu {

#if defined(__CUDACC__)

#define VEERY_SUMS(n) "+r"(c[n][0]), "+r"(c[n][1]), "+r"(c[n][2]), "+r"(c[n][3])
#define VEERY_SUMS_OF_4 VEERY_SUMS(0), VEERY_SUMS(1), VEERY_SUMS(2), VEERY_SUMS(3)
#define VEERY_SUMS_OF_8 VEERY_SUMS_OF_4, VEERY_SUMS(4), VEERY_SUMS(5), VEERY_SUMS(6), VEERY_SUMS(7)

/// Where rows of the other operand lie in shared memory: pieces of 8 rows and 16 bytes, 128 bytes
/// each and from one 16 columns to the next, `stride` bytes from one 8 rows to the next.
VEERY_GPU uint64_t rows_in_shared(const uint8_t* at, int stride) {
  constexpr uint64_t kPiece = 128;
  return (shared_address(at) & 0x3ffffU) >> 4 | kPiece >> 4 << 16 |
         static_cast<uint64_t>(stride >> 4) << 32;
}
/// One of begin_products(); kAdds: to what c is.
template <bool kAdds>
VEERY_GPU void begin_product(int32_t (&c)[8][4], const uint32_t (&a)[4], uint64_t rows) {
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
VEERY_GPU void begin_product(int32_t (&c)[4][4], const uint32_t (&a)[4], uint64_t rows) {
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
  asm volatile(
      "{\n.reg .pred p;\nsetp.ne.b32 p, %21, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n32k32.s32.u8.s8 {%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,"
      "%12,%13,%14,%15},{%16,%17,%18,%19},%20,p;\n}"
      : VEERY_SUMS_OF_4
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(rows), "n"(kAdds ? 1 : 0));
#endif
}
/// Begins c = a x + b y of a warpgroup: a and b [64][32] uint8, of which warp w has rows 16 w to
/// 16 w + 15 as in multiply_tile(), x and y 32 columns of 64 rows (or of 32) of int8 in shared
/// memory, as pieces of [8 rows][16 columns]: those of x, then those of y, each group of 8 rows
/// `stride` bytes behind the one before. c[n] are the sums of rows 8 n to 8 n + 7 of x as
/// multiply_tile() has them. All four warps come here; no one looks at c before
/// wait_for_products().
template <int kGroups>
VEERY_GPU void begin_products(int32_t (&c)[kGroups][4], const uint32_t (&a)[4],
                              const uint32_t (&b)[4], const uint8_t* x, int stride) {
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
  const uint64_t rows = rows_in_shared(x, stride);
  asm volatile("wgmma.fence.sync.aligned;");
  begin_product<false>(c, a, rows);
  begin_product<true>(c, b, rows + (256 >> 4));
  asm volatile("wgmma.commit_group.sync.aligned;");
#endif
}
/// Until what was begun is there.
VEERY_GPU void wait_for_products(int32_t (&c)[8][4]) {
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
  asm volatile("wgmma.wait_group.sync.aligned 0;" : VEERY_SUMS_OF_8);
#endif
}
VEERY_GPU void wait_for_products(int32_t (&c)[4][4]) {
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
  asm volatile("wgmma.wait_group.sync.aligned 0;" : VEERY_SUMS_OF_4);
#endif
}
#undef VEERY_SUMS
#undef VEERY_SUMS_OF_4
#undef VEERY_SUMS_OF_8

#else

template <int kGroups>
void begin_products(int32_t (&c)[kGroups][4], const uint32_t (&a)[4], const uint32_t (&b)[4],
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
        // As on a GPU sums of rows that are not there wrap.
        c[n][i] = static_cast<int32_t>(static_cast<uint32_t>(c[n][i]) +
                                       static_cast<uint32_t>(int{own} * int{other}));
      }
    }
  sync_warp();
}
template <int kGroups>
void wait_for_products(int32_t (&)[kGroups][4]) {}

#endif

}  // namespace veery::gpu
