// mlx_encode.h: weights quantised as MLX quantises them.
#pragma once
#include <span>

#include "dtype/dtype.h"
#include "file/folder/mlx.h"

namespace veery {

/// Bytes that a row of `columns` becomes. Biases are there in affine formats only; their elements
/// and those of affine scales have the type of the weights.
struct MlxRow {
  size_t codes = 0, scales = 0, biases = 0;
};
MlxRow mlx_row(const MlxFormat& format, DType dtype, int64_t columns);

/// Quantises whole groups of weights that are numbers of `dtype` (f32, f16 or bf16), giving the
/// bits of mlx.core.quantize on a CPU (mlx 0.32). Throws kInput naming the first element that is
/// not finite.
struct MlxOutput {
  std::byte *codes, *scales, *biases;
};
void encode_mlx(const MlxFormat& format, DType dtype, std::span<const float> values,
                const MlxOutput& out);

/// The nearest number of e4m3, of two the even one; at most 448. Source: arXiv:2209.05433.
uint8_t f32_to_fp8_e4m3(float value);

}  // namespace veery
