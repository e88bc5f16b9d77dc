// mlx_plan.h: decides which tensors of a folder are quantised, and in which MLX format.
#pragma once
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "convert/folder_tensors.h"
#include "file/folder/mlx.h"

namespace veery {

/// Applies to tensors whose names contain a match of a regular expression (PCRE); nullopt keeps
/// floats.
struct MlxRule {
  std::string pattern;
  std::optional<MlxFormat> format;
};

struct MlxOptions {
  MlxFormat format;
  std::vector<MlxRule> rules;  ///< the first match wins
};

/// Returns the format of a mode, "affine", "mxfp4", "mxfp8" or "nvfp4". Bits or group of 0 mean the
/// mode's default. Throws kInput if the mode does not support them.
MlxFormat mlx_format_of(std::string_view mode, int bits, int64_t group);

/// The format of each tensor of a folder of `type`, chosen as mlx-lm does: all matrices and
/// embeddings whose rows are whole groups, with 8 bits for some layers of some models. Rules
/// override that.
struct MlxPlan {
  std::vector<std::optional<MlxFormat>> formats;
  /// Tensors that stay floats because their rows are not whole groups.
  std::vector<std::string> misfits;
  Json quantization;  ///< the settings for config.json; null if nothing is quantised
};
MlxPlan plan_mlx(const FolderTensors& tensors, const FolderType& type, const MlxOptions& options);

}  // namespace veery
