// mlx.h: weights quantised by MLX.
#pragma once
#include <optional>
#include <string>
#include <string_view>

#include "base/json.h"
#include "file/folder/safetensors.h"
#include "file/model_file.h"

namespace veery {

/// How one tensor is quantised. Source: MLX's documentation of mlx.core.quantize.
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

/// As config.json spells it.
std::string_view mlx_mode_name(MlxFormat::Mode mode);

/// The format of `name` (without ".weight") that `quantization` or `quantization_config` of a
/// config.json gives, with what it says of single layers; absent where there is none. Throws
/// kFormat or kUnsupported naming the layer.
std::optional<MlxFormat> mlx_format(const Json& config, const std::string& name);

/// The weight whose codes, scales and biases (null but for affine) are given, in the type of its
/// format; NVFP4 whose rows are no whole blocks of 64 in f32. Throws kFormat naming the tensor if
/// shapes or types do not fit the format.
TensorView make_mlx_view(const StoredTensor& codes, const StoredTensor& scales,
                         const StoredTensor* biases, const MlxFormat& format);

/// A weight in blocks of MXFP4 as gpt-oss keeps it: `blocks` (..., rows, cols / 32, 16) bytes with
/// two neighbours each, the first in the low half; `scales` (..., rows, cols / 32). Throws kFormat.
TensorView make_mxfp4_view(const std::string& name, const StoredTensor& blocks,
                           const StoredTensor& scales);

}  // namespace veery
