// index_config.h: what config.json says of sparse attention.
#pragma once
#include "import/folder/json_fields.h"
#include "model/config.h"

namespace veery {

/// Fills in c.index. Layers may attend to what another one chose: by a list, a pattern or a period,
/// as transformers reads them. Throws kFormat naming the key, if a list does not fit the layers or
/// the first layer has nothing to choose by.
void read_index(const JsonFields& fields, TransformerConfig& c);

}  // namespace veery
