// open_model.h: opens a model in any supported container, with uniform tensor names.
#pragma once
#include <string>

#include "file/model_file.h"

namespace veery {

/// Opens a GGUF file (including any part of a split one) or a .bin file of whisper.cpp without
/// conversion; folders are not supported. Throws as open_model().
ModelFile open_model_file(const std::string& path);

/// Opens such a file, or a folder with config.json and safetensors, as resolved by find_model()
/// (file/folder/find_model.h). Tensors get GGUF names ("blk.0.attn_q.weight"); joint projections
/// are split; norms stored as w of (1 + w) have the 1 added. For folders, the metadata has
/// general.architecture, general.name and general.sampling.*. Tensors of other parts (vision) and
/// of unknown architectures keep their names. Throws kNotFound, kIo, kFormat, kUnsupported.
ModelFile open_model(const std::string& path);

}  // namespace veery
