// read_config.h: reads the configuration of an opened model.
#pragma once
#include "model/config.h"

namespace veery {

/// Returns the configuration according to metadata or config.json, and tensors, of a model opened
/// by open_model(). Throws kUnsupported naming an unknown architecture or feature, kFormat naming a
/// key that is missing or out of range.
TransformerConfig read_config(const ModelFile& file);

}  // namespace veery
