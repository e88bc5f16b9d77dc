// folder_text.h: writes the text-related files of a folder: tokenizer, chat template, sampling
// settings.
#pragma once
#include "file/model_file.h"
#include "file/output/pending_folder.h"

namespace veery {

/// Copies the files of the source folder. For GGUF, creates tokenizer.json, tokenizer_config.json
/// and generation_config.json from the metadata, or nothing if the file has no tokenizer. Throws as
/// make_tokenizer() and tokenizer_json().
void write_text_files(const ModelFile& file, const PendingFolder& folder);

/// Returns whether a GGUF file has a tokenizer.
bool has_tokenizer(const ModelFile& file);

}  // namespace veery
