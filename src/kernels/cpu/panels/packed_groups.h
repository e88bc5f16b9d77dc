// packed_groups.h: packing of affine groups (dtype/affine.h) and of FP8.
#pragma once
#include "dtype/affine.h"
#include "dtype/fp8.h"
#include "kernels/cpu/panels/packed_codes.h"

namespace veery {

void pack_affine_panel(DType type, const std::byte* source, const PanelPosition& position,
                       uint8_t* out);
void decode_affine_row(DType type, const uint8_t* panel, int lane, int64_t cols, float* out);

void pack_fp8_panel(DType type, const std::byte* source, const PanelPosition& position,
                    uint8_t* out);
void decode_fp8_row(DType type, const uint8_t* panel, int lane, int64_t cols, float* out);

}  // namespace veery
