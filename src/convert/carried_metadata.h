// carried_metadata.h: what a GGUF file says of itself, kept in config.json of a folder made of it.
#pragma once
#include "base/json.h"
#include "file/model_file.h"

namespace veery {

/// The member of config.json that holds it; transformers steps over it.
inline constexpr const char* kCarriedMetadata = "gguf_metadata";

/// Name, licence, languages, tags and other texts of `general.*`, and the name of the
/// pre-tokenizer: an object of GGUF's keys.
Json carried_metadata(const Metadata& metadata);

/// Sets what `config`, a config.json, carries. The name of the pre-tokenizer is set only if it cuts
/// text as the one of `metadata` does, which was made of the folder's tokenizer.
void restore_metadata(const Json& config, Metadata& metadata);

}  // namespace veery
