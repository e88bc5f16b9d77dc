// folder_text.h: the files of a folder that belong to text: tokenizer, chat template, how to
// sample.
#pragma once
#include "file/model_file.h"
#include "file/pending_folder.h"

namespace veery {

/// Copies those of the folder that is read; makes them of the metadata of GGUF.
void write_text_files(const ModelFile& file, const PendingFolder& folder);

}  // namespace veery
