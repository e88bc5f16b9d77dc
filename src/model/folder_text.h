// folder_text.h: the files of a folder that belong to text: tokenizer, chat template, how to
// sample.
#pragma once
#include <string_view>
#include <utility>

#include "file/model_file.h"
#include "file/pending_folder.h"

namespace veery {

/// What generation_config.json calls the numbers of GGUF that recommend a way to sample; top_k, a
/// whole one, has the same name.
inline constexpr std::pair<std::string_view, std::string_view> kSamplingKeys[] = {
    {"temperature", "general.sampling.temp"},
    {"top_p", "general.sampling.top_p"},
    {"min_p", "general.sampling.min_p"},
    {"repetition_penalty", "general.sampling.penalty_repeat"}};

/// Copies those of the folder that is read. Makes tokenizer.json, tokenizer_config.json and
/// generation_config.json of the metadata of GGUF; a file without a tokenizer gets none. Throws as
/// make_tokenizer and tokenizer_json.
void write_text_files(const ModelFile& file, const PendingFolder& folder);

/// Whether a GGUF file has a tokenizer.
bool has_tokenizer(const ModelFile& file);

}  // namespace veery
