// mlx_encode.h: quantises weights as MLX does.
#pragma once
#include <span>

#include "dtype/dtype.h"
#include "file/folder/mlx.h"

namespace veery {

/// Bytes per row of `columns` elements. Only affine formats have biases; biases and affine scales
/// have the type of the weights.
struct MlxRow {
  size_t codes = 0, scales = 0, biases = 0;
};
MlxRow mlx_row(const MlxFormat& format, DType dtype, int64_t columns);

/// Quantises whole groups of weights that are representable in `dtype` (f32, f16 or bf16), with the
/// same bits as mlx.core.quantize on a CPU (mlx 0.32). Throws kInput naming the first element that
/// is not finite.
struct MlxOutput {
  std::byte *codes, *scales, *biases;
};
void encode_mlx(const MlxFormat& format, DType dtype, std::span<const float> values,
                const MlxOutput& out);

/// Rounds to the nearest e4m3, ties to even, clamped to +-448. Source: arXiv:2209.05433.
uint8_t f32_to_fp8_e4m3(float value);

}  // namespace veery
