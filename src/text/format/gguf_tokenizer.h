// gguf_tokenizer.h: the tokenizer of a folder as the metadata of GGUF.
#pragma once
#include <string>

#include "file/model_file.h"

namespace veery {

/// Adds tokenizer.ggml.* and tokenizer.chat_template* of `folder` (the file of
/// find_tokenizer(), and those around it) for an embedding of `rows` rows: ids without a token
/// get one that no text becomes, tokens without a row are left out. A folder without a tokenizer
/// gets tokenizer.ggml.model "none". Throws as load_tokenizer_folder, and kUnsupported naming a
/// component of the tokenizer that GGUF has no word for. `around`: whether what encode() puts
/// around a text is said; where something else leads the model, it is not needed.
void add_gguf_tokenizer(const std::string& folder, int64_t rows, Metadata& metadata,
                        bool around = true);

}  // namespace veery
