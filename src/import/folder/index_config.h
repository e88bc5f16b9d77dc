// index_config.h: reads the sparse attention settings of config.json.
#pragma once
#include "import/folder/json_fields.h"
#include "model/config.h"

namespace veery {

/// Fills in c.index. A layer may reuse the positions chosen by a previous layer, according to a
/// list, a pattern or a period, as in transformers. Throws kFormat naming the key if a list does
/// not match the layers or the first layer has no previous one.
void read_index(const JsonFields& fields, TransformerConfig& c);

}  // namespace veery
