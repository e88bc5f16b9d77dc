// source_config.h: reads the settings of an audio encoder in config.json.
#pragma once
#include "base/json.h"
#include "import/folder/json_fields.h"
#include "model/config.h"

namespace veery {

/// Renames the decoder's keys to those of decoder-only models.
void normalise_whisper(Json& config);

/// Fills in c.source; c.dim must be set. Throws kFormat naming file, key, what was found and what
/// was expected.
void read_source(const JsonFields& fields, TransformerConfig& c);

}  // namespace veery
