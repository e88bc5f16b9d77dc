// attend_ragged.h: attention of the rows that prefill kernels skip: those of tiles whose rows are
// not consecutive positions of one sequence (contiguous_tile()). Most prompts have no such tiles. A
// thread block per row that tests this itself took longer than a few blocks that distribute the
// rows.
#pragma once
#include "kernels/gpu/dialect/kernel_key.h"
#include "kernels/gpu/params/attend_params.h"

namespace veery::gpu {

namespace key {

constexpr KernelKey attend_ragged(CacheType type) {
  return of(Family::kAttendRagged, static_cast<int>(type), RowClass::kMany, 0);
}

}  // namespace key
}  // namespace veery::gpu

#if defined(VEERY_CUDA_CODE)
#include "kernels/gpu/kernels/attention/attend_split.h"

namespace veery::gpu {

/// Returns a bit for each of 32 tiles from row `first` on: whether its rows are not consecutive
/// positions of one sequence. Called by all threads.
VEERY_GPU uint32_t ragged_tiles(const AttendParams& a, int64_t first, int64_t rows) {
  auto* bits = reinterpret_cast<uint32_t*>(shared_memory());
  sync_block();  // all threads have read the previous contents
  if (thread() == 0) *bits = 0;
  sync_block();
  const int64_t begin = first * a.tile_rows, max_score = begin + int64_t{32} * a.tile_rows;
  VEERY_UNROLL(8)
  for (int64_t r = begin + thread(); r < (max_score < rows ? max_score : rows); r += threads()) {
    const auto tile = static_cast<int>(r - begin) / a.tile_rows;
    if (static_cast<int>(r - begin) == tile * a.tile_rows) continue;
    const int64_t token = a.run.token_row(a.q.rows, r);
    const int64_t before = a.run.token_row(a.q.rows, r - 1);
    if (a.run.span_of[token] != a.run.span_of[before] ||
        a.run.position(token) != a.run.position(before) + 1)
      atomic_or(bits, 1U << tile);
  }
  sync_block();
  const uint32_t all = *bits;
  sync_block();
  return all;
}
/// `spread` thread blocks share the rows of each key head.
template <typename T>
VEERY_GPU void attend_ragged(const AttendParams& a) {
  wait_for_dependencies();
  const int64_t rows = a.run.count(a.out.rows), tiles = (rows + a.tile_rows - 1) / a.tile_rows;
  int64_t next = block_z();  // next row of this thread block, among the ragged ones
  for (int64_t first = 0; first < tiles; first += 32)
    for (uint32_t left = ragged_tiles(a, first, rows); left != 0; left &= left - 1) {
      const int64_t tile = first + bit_count((left & (0U - left)) - 1);
      for (; next < a.tile_rows; next += a.blocks_per_head) {
        const int64_t row = tile * a.tile_rows + next;
        if (row >= rows) continue;
        attend_row<T, 1, false>(a, row);
        sync_block();
      }
      next -= a.tile_rows;
    }
}

}  // namespace veery::gpu
#endif  // VEERY_CUDA_CODE

#define VEERY_GPU_ATTEND_RAGGED(X, name, type, cache)                                        \
  X(kCuda, attend_ragged_##name, AttendParams, 128, 0, key::attend_ragged(CacheType::cache), \
    (attend_ragged<type>))
#define VEERY_GPU_ATTEND_RAGGED_KERNELS(X)      \
  VEERY_GPU_ATTEND_RAGGED(X, bf16, BF16, kBF16) \
  VEERY_GPU_ATTEND_RAGGED(X, f16, F16, kF16)    \
  VEERY_GPU_ATTEND_RAGGED(X, mma, BF16Mma, kBF16Mma)
