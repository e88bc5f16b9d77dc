// folder_config_write.h: config.json of transformers and mlx-lm for an opened model.
#pragma once
#include <string_view>

#include "base/json.h"
#include "import/folder/folder_types.h"
#include "model/config.h"

namespace veery {

/// The configuration of `type` that means `c`, with the keys of old programs (rope_theta,
/// rope_scaling, torch_dtype) and of new ones (rope_parameters, dtype). A folder's own
/// configuration is kept, but for what its weights were quantised by, and completed. `dtype` as
/// transformers names it: "float16". Throws kUnsupported naming what such a configuration cannot
/// say.
Json folder_config(const ModelFile& file, const TransformerConfig& c, const FolderType& type,
                   std::string_view dtype);

}  // namespace veery
