// open_model.h: a model from whatever container it lies in, under one set of names.
#pragma once
#include <string>

#include "file/model_file.h"

namespace veery {

/// A GGUF file (one, or any part of a split one) or a .bin file of whisper.cpp, as it is; not a
/// folder. Throws as open_model().
ModelFile open_model_file(const std::string& path);

/// Opens such a file or a folder with config.json and safetensors, whichever `path` means
/// (file/folder/find_model.h). Tensors get the names that definitions use, those of GGUF
/// ("blk.0.attn_q.weight"); joint projections become separate ones; norms that a folder holds as w
/// of (1 + w) have the 1 added. A folder's metadata has general.architecture, general.name and
/// general.sampling.*. Tensors of other parts (vision) and of unknown architectures keep their
/// names. Throws kNotFound, kIo, kFormat, kUnsupported.
ModelFile open_model(const std::string& path);

}  // namespace veery
