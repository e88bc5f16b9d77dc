// gguf_tokenizer.h: converts the tokenizer of a model folder to GGUF metadata.
#pragma once
#include <string>

#include "file/model_file.h"

namespace veery {

/// Adds tokenizer.ggml.* and tokenizer.chat_template* of `folder` (the result of find_tokenizer()
/// and the files beside it) for an embedding of `rows` rows. Ids without a token get a placeholder
/// that text never produces; tokens without a row are omitted. For a folder without a tokenizer
/// tokenizer.ggml.model is "none".
/// `around`: also writes the special tokens that encode() adds around a text; not needed for models
/// that build their input in another way.
/// Throws as load_tokenizer_folder(), and kUnsupported naming a component that GGUF cannot
/// represent.
void add_gguf_tokenizer(const std::string& folder, int64_t rows, Metadata& metadata,
                        bool around = true);

}  // namespace veery
