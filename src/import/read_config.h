// read_config.h: what a container says of its model.
#pragma once
#include "model/config.h"

namespace veery {

/// From the metadata or config.json, and the tensors, of an opened model (open_model). Throws
/// kUnsupported naming an unknown architecture or feature, kFormat naming a key that is missing or
/// out of range.
TransformerConfig read_config(const ModelFile& file);

}  // namespace veery
