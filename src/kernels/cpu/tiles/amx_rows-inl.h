// amx_rows-inl.h: quantises token rows into tiles. AVX-512 only.
#if defined(VEERY_KERNELS_CPU_AMX_ROWS_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef VEERY_KERNELS_CPU_AMX_ROWS_INL_H
#undef VEERY_KERNELS_CPU_AMX_ROWS_INL_H
#else
#define VEERY_KERNELS_CPU_AMX_ROWS_INL_H
#endif

#include <algorithm>
#include <cstring>

#include "kernels/cpu/activations/row-inl.h"
#include "kernels/cpu/tiles/amx_rows.h"

HWY_BEFORE_NAMESPACE();
namespace veery {
namespace HWY_NAMESPACE {
namespace {

// Packs a (low halves of the lanes) and b (high halves) as bf16. Their values must be exact in
// bf16.
HWY_INLINE I32 pack_bf16(F32 a, F32 b) {
  return {_mm512_mask_blend_epi16(0xaaaaaaaaU, shr<16>(bits(a)).v, bits(b).v)};
}

// Stores 16 int8 values times 2^shift as bf16.
HWY_INLINE void store_bf16_row(std::byte* out, __m128i bytes, I32 shift) {
  const I32 values = {_mm512_cvtepi8_epi32(bytes)};
  store_u16(out, shr<16>(bits(to_float(shl(values, shift)))));
}
/// Stores 32 int8 values times 2^shift as a row of a bf16 tile, in the column order of TileGroup.
HWY_INLINE void store_tile_row(std::byte* out, const int8_t* q, int32_t shift) {
  const __m128i order = _mm_setr_epi8(0, 2, 1, 3, 4, 6, 5, 7, 8, 10, 9, 11, 12, 14, 13, 15);
  for (int half = 0; half < 2; ++half) {
    const __m128i v = _mm_loadu_si128(reinterpret_cast<const __m128i*>(q + 16 * half));
    store_bf16_row(out + 32 * half, _mm_shuffle_epi8(v, order), set(shift));
  }
}

/// Stores the 16 sums of a block of 256 as pairs (TileGroup::sums). `sums` has the order of
/// ActivationGroup.
HWY_INLINE void store_sums_row(std::byte* out, const int16_t* sums) {
  // Sum i = 2 s + t of strip s = 0 to 7 is at index s / 4 * 8 + t * 4 + s % 2 * 2 + s % 4 / 2.
  const __m512i order = _mm512_setr_epi32(0, 4, 2, 6, 1, 5, 3, 7, 8, 12, 10, 14, 9, 13, 11, 15);
  const __m512i v =
      _mm512_cvtepi16_epi32(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(sums)));
  const I32 sum = {_mm512_permutexvar_epi32(order, v)};
  const I32 high = bit_and(add(sum, set(128)), set(-256));
  store_int(out, pack_bf16(to_float(high), to_float(sub(sum, high))));
}

/// Scratch memory of one worker: one quantised row, and the outlier blocks of 16 rows.
struct RowScratch {
  std::byte* row;
  OutlierBlock* outliers;  // [16][outlier_limit]
  int32_t outlier_count[kTileRows];
};

// Merges the outlier blocks of 16 rows by ascending block index (TileGroup::residual).
inline void merge_outliers(const RowScratch& scratch, int64_t blocks, std::byte* base,
                           const TileLayout& at) {
  const int64_t limit = outlier_limit(blocks);
  auto* index = reinterpret_cast<int32_t*>(base + at.residual_block);
  auto* scale = reinterpret_cast<float*>(base + at.residual_scale);
  int32_t next[kTileRows] = {};
  int32_t count = 0;
  while (true) {
    int32_t block = INT32_MAX;
    for (int r = 0; r < kTileRows; ++r)
      if (next[r] < scratch.outlier_count[r])
        block = std::min(block, scratch.outliers[r * limit + next[r]].block);
    if (block == INT32_MAX) break;
    std::byte* tile = base + at.residual + int64_t{count} * kByteTile;
    std::memset(tile, 0, kByteTile);
    std::memset(scale + count * kTileRows, 0, kTileRows * sizeof(float));
    for (int r = 0; r < kTileRows; ++r) {
      const OutlierBlock& outlier = scratch.outliers[r * limit + next[r]];
      if (next[r] >= scratch.outlier_count[r] || outlier.block != block) continue;
      std::memcpy(tile + r * kByteRowBytes, outlier.residual, kByteRowBytes);
      scale[count * kTileRows + r] = outlier.scale;
      ++next[r];
    }
    index[count++] = block;
  }
  index[blocks] = count;
}

inline void rows_per32(const Row* rows, int count, int64_t cols, RowScratch& scratch,
                       std::byte* base) {
  const TileLayout at(Activations::kPer32, cols);
  const int64_t blocks = cols / 32;
  auto* scale = reinterpret_cast<float*>(base + at.scale);
  auto* moment = reinterpret_cast<float*>(base + at.moment);
  ActivationGroup g = activation_group(Activations::kPer32, scratch.row, cols, 1);
  for (int r = 0; r < kTileRows; ++r) {
    g.outliers = scratch.outliers + r * outlier_limit(blocks);
    if (r < count) quantise_per32(rows + r, 1, cols, g, 1);
    scratch.outlier_count[r] = r < count ? g.extra[0] : 0;
    for (int64_t b = 0; b < blocks; ++b) {
      std::byte* out = base + b * kByteTile + r * kByteRowBytes;
      if (r < count)
        std::memcpy(out, g.quads + 32 * b, kByteRowBytes);
      else
        std::memset(out, 0, kByteRowBytes);
      scale[b * kTileRows + r] = r < count ? g.scale[b] : 0;
      moment[b * kTileRows + r] = r < count ? g.moment[b] : 0;
    }
  }
  merge_outliers(scratch, blocks, base, at);
}

inline void rows_per256(const Row* rows, int count, int64_t cols, RowScratch& scratch,
                        std::byte* base) {
  const TileLayout at(Activations::kPer256, cols);
  auto* scale = reinterpret_cast<float*>(base + at.scale);
  const ActivationGroup g = activation_group(Activations::kPer256, scratch.row, cols, 1);
  for (int r = 0; r < kTileRows; ++r) {
    std::byte* out = base + r * kTileRowBytes;
    if (r < count) quantise_per256<1>(rows + r, 1, cols, g);
    for (int64_t strip = 0; strip < cols / 32; ++strip)
      if (r < count)
        store_tile_row(out + strip * kTileBytes, g.quads + 32 * strip, g.shift[strip]);
      else
        std::memset(out + strip * kTileBytes, 0, kTileRowBytes);
    for (int64_t b = 0; b < cols / 256; ++b) {
      if (r < count)
        store_sums_row(out + at.sums + b * kTileBytes, g.sums + 16 * b);
      else
        std::memset(out + at.sums + b * kTileBytes, 0, kTileRowBytes);
      scale[b * kTileRows + r] = r < count ? g.scale[b] : 0;
    }
  }
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace veery
HWY_AFTER_NAMESPACE();

#endif  // VEERY_KERNELS_CPU_AMX_ROWS_INL_H
