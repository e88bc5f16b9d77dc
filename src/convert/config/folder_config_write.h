// folder_config_write.h: generates config.json of transformers and mlx-lm for an opened model.
#pragma once
#include <string_view>

#include "base/json.h"
#include "import/folder/folder_types.h"
#include "model/config.h"

namespace veery {

/// Returns the configuration of `type` that represents `c`, with the keys of older programs
/// (rope_theta, rope_scaling, torch_dtype) and newer ones (rope_parameters, dtype). A source
/// folder's own configuration is kept, except its quantisation, and completed. `dtype` is a name of
/// transformers: "float16". Throws kUnsupported naming what such a configuration cannot represent.
Json folder_config(const ModelFile& file, const TransformerConfig& c, const FolderType& type,
                   std::string_view dtype);

}  // namespace veery
