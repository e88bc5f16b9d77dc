// folder_text.h: the files of a folder that belong to text: tokenizer, chat template, how to
// sample.
#pragma once
#include "file/model_file.h"
#include "file/output/pending_folder.h"

namespace veery {

/// Copies those of the folder that is read. Makes tokenizer.json, tokenizer_config.json and
/// generation_config.json of the metadata of GGUF; a file without a tokenizer gets none. Throws as
/// make_tokenizer and tokenizer_json.
void write_text_files(const ModelFile& file, const PendingFolder& folder);

/// Whether a GGUF file has a tokenizer.
bool has_tokenizer(const ModelFile& file);

}  // namespace veery
