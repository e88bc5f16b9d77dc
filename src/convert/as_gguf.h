// as_gguf.h: a model as a GGUF file of it is: names and layout of tensors, metadata, vocabulary.
#pragma once
#include <string>

#include "file/model_file.h"

namespace veery {

/// A GGUF file as it is. A folder with the tensors of its text part as llama.cpp's converters write
/// them (rows of Q and K in the order of their pairs where the architecture has that in GGUF, joint
/// projections, divisors of frequencies), the configuration as keys, the tokenizer as
/// tokenizer.ggml.*; its rows are computed when they are read. Throws as open_model, and
/// kUnsupported naming what GGUF cannot say.
ModelFile open_as_gguf(const std::string& path);

}  // namespace veery
