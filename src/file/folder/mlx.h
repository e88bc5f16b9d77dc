// mlx.h: weights quantised by MLX, and MXFP4 weights of gpt-oss.
#pragma once
#include <optional>
#include <string>
#include <string_view>

#include "base/json.h"
#include "file/folder/safetensors.h"
#include "file/model_file.h"

namespace veery {

/// The quantisation of a tensor. Source: MLX's documentation of mlx.core.quantize.
///   affine       groups of 32, 64 or 128; scale * q + bias, q of 2, 3, 4, 5, 6 or 8 bits
///   mxfp4, mxfp8 groups of 32; 2^(scale - 127) * e2m1 or e4m3 (OCP Microscaling, version 1.0)
///   nvfp4        groups of 16; an e4m3 scale * e2m1
struct MlxFormat {
  enum class Mode : uint8_t { kAffine, kMxfp4, kMxfp8, kNvfp4 };
  Mode mode = Mode::kAffine;
  int64_t group = 64;
  int bits = 4;
  bool operator==(const MlxFormat&) const = default;
};

/// Returns the name of a mode as config.json spells it.
std::string_view mlx_mode_name(MlxFormat::Mode mode);

/// Returns the format of the layer `name` (without ".weight") according to `quantization` or
/// `quantization_config` of a config.json, including settings of single layers; nullopt if neither
/// exists. Throws kFormat or kUnsupported naming the layer.
std::optional<MlxFormat> mlx_format(const Json& config, const std::string& name);

/// Returns the weight with the given codes, scales and biases (nullptr except for affine) in the
/// type of its format; NVFP4 with rows that are not whole blocks of 64 becomes f32. Throws kFormat
/// naming the tensor if shapes or types do not fit the format.
TensorView make_mlx_view(const StoredTensor& codes, const StoredTensor& scales,
                         const StoredTensor* biases, const MlxFormat& format);

/// Returns an MXFP4 weight of gpt-oss: `blocks` has shape (..., rows, cols / 32, 16), each byte
/// with two adjacent elements, the first in the low nibble; `scales` has shape (..., rows, cols /
/// 32). Throws kFormat.
TensorView make_mxfp4_view(const std::string& name, const StoredTensor& blocks,
                           const StoredTensor& scales);

}  // namespace veery
