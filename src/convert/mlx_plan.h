// mlx_plan.h: which tensors of a folder become quantised by MLX's formats, and how.
#pragma once
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "convert/folder_tensors.h"
#include "file/folder/mlx.h"

namespace veery {

/// Of tensors whose names a regular expression (PCRE) finds a match in; no format: floats.
struct MlxRule {
  std::string pattern;
  std::optional<MlxFormat> format;
};

struct MlxOptions {
  MlxFormat format;
  std::vector<MlxRule> rules;  ///< the first that matches counts
};

/// The format of a mode, "affine", "mxfp4", "mxfp8" or "nvfp4", with what it has where bits or
/// group are 0. Throws kInput if the mode does not have them.
MlxFormat mlx_format_of(std::string_view mode, int bits, int64_t group);

/// The format of each tensor of a folder of `type`, as mlx-lm decides it: matrices and embeddings
/// whose rows are whole groups, some layers of some models with 8 bits; then rules.
struct MlxPlan {
  std::vector<std::optional<MlxFormat>> formats;
  std::vector<std::string> misfits;  ///< tensors that stay floats as their rows are no whole groups
  Json quantization;                 ///< for config.json; null if nothing is quantised
};
MlxPlan plan_mlx(const FolderTensors& tensors, const FolderType& type, const MlxOptions& options);

}  // namespace veery
