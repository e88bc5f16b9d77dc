// packed_codes.h: packing of blocks with a code book and of NVFP4; helpers of all packing
// functions.
#pragma once
#include <cstring>

#include "dtype/code_books.h"
#include "kernels/dispatch.h"

namespace veery {

/// Copies dword j of row n to out[j][n], for 16 rows. take_lane() extracts one row again.
inline void interleave(const uint8_t* const* rows, int dwords, uint8_t* out) {
  for (int j = 0; j < dwords; ++j)
    for (int n = 0; n < kLanes; ++n) std::memcpy(out + (j * kLanes + n) * 4, rows[n] + 4 * j, 4);
}
inline void take_lane(const uint8_t* packed, int lane, int dwords, uint8_t* out) {
  for (int j = 0; j < dwords; ++j) std::memcpy(out + 4 * j, packed + (j * kLanes + lane) * 4, 4);
}
/// Returns the byte index [h][t][s] of the scale of sub-block 8 h + 2 s + t (of 16 elements).
constexpr int scale_slot(int sub) { return sub / 8 * 8 + sub % 2 * 4 + sub % 8 / 2; }

/// Returns whether `type` has blocks of 256 with a code book.
inline bool is_coded(DType type) {
  return code_book(type).bits > 0 && info(type).block == kSuperBlock;
}

/// Panel `index` of a weight of `rows` x `cols`.
struct PanelPosition {
  int64_t rows, cols, index;
};
void pack_coded_panel(DType type, const std::byte* source, const PanelPosition& position,
                      uint8_t* out);
void decode_coded_row(DType type, const uint8_t* panel, int lane, int64_t cols, float* out);

/// NVFP4. A unit is half a block. A scale of 0x7F (NaN), which counts as 0, is stored as 0.
void pack_nvfp4_panel(const std::byte* source, const PanelPosition& position, uint8_t* out);
void decode_nvfp4_row(const uint8_t* panel, int lane, int64_t cols, float* out);

/// Q8_0 in three parts (split_panels.h). Packs panels [first, last).
void pack_split_panels(const std::byte* source, int64_t rows, int64_t cols, std::byte* target,
                       int64_t first, int64_t last);
void decode_split_row(const Operand& weight, int64_t row, float* out);

}  // namespace veery
