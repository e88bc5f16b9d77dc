// source_config.h: what config.json says of an encoder of sound beside its decoder.
#pragma once
#include "base/json.h"
#include "import/folder/json_fields.h"
#include "model/config.h"

namespace veery {

/// Gives the numbers of the decoder the names that decoders have alone.
void settle_whisper(Json& config);

/// Fills in c.source; c.dim must be known. Throws kFormat naming file, key, what was found and what
/// was expected.
void read_source(const JsonFields& fields, TransformerConfig& c);

}  // namespace veery
