// q2_groups.h: reads ggml's Q2_0 as affine groups.
#pragma once
#include <cstdint>

#include "dtype/blocks.h"
#include "file/model_file.h"

namespace veery::gguf {

/// ggml's type number of Q2_0: blocks of 64 elements d * (q - 1) in 18 bytes: d as f16, then the
/// 2-bit codes q as one bit stream, lowest bits first. Source: ggml-common.h of llama.cpp.
inline constexpr uint32_t kQ2Number = 42;
inline constexpr int64_t kQ2Elements = 64, kQ2Bytes = sizeof(BlockQ2_0);

/// Returns the type in which Q2_0 is read: 2-bit groups of 64. Scale d and bias -d give the same
/// values.
DType q2_group_type();

/// Returns a tensor of q2_group_type() that reads the Q2_0 blocks of `tensor` as groups.
TensorView q2_groups(TensorView tensor);

}  // namespace veery::gguf
