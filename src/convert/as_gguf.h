// as_gguf.h: opens a model with the tensor names, layout, metadata and vocabulary of a GGUF file.
#pragma once
#include <string>

#include "file/model_file.h"

namespace veery {

/// Opens a GGUF file unchanged, or a folder as llama.cpp's converters would write it: text model
/// tensors (with Q and K rows in the order of their RoPE pairs if GGUF requires it for the
/// architecture, joint projections, RoPE divisors), configuration as keys, tokenizer as
/// tokenizer.ggml.*. Rows are computed when they are read. Throws as open_model(), and kUnsupported
/// naming what GGUF cannot represent.
ModelFile open_as_gguf(const std::string& path);

}  // namespace veery
