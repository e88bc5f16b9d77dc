// carried_metadata.h: keeps GGUF's descriptive metadata in config.json of a converted folder.
#pragma once
#include "base/json.h"
#include "file/model_file.h"

namespace veery {

/// The member of config.json that holds the metadata; transformers ignores it.
inline constexpr const char* kCarriedMetadata = "gguf_metadata";

/// Returns name, licence, languages, tags and other `general.*` strings, and the name of the
/// pre-tokenizer, as an object of GGUF keys.
Json carried_metadata(const Metadata& metadata);

/// Restores the metadata carried by `config`, a config.json. The pre-tokenizer name is only
/// restored if it splits text like the one in `metadata`, which was derived from the folder's
/// tokenizer.
void restore_metadata(const Json& config, Metadata& metadata);

}  // namespace veery
