// ternary.h: ternary weights (-1, 0 and 1) in the packing of BitNet folders.
#pragma once
#include "base/json.h"
#include "file/folder/safetensors.h"
#include "file/model_file.h"

namespace veery {

/// Returns whether the folder with this config.json has packed ternary weights. Throws kUnsupported
/// for weights that would have to be rounded on loading ("online").
bool has_ternary_weights(const Json& config);

/// Returns a ternary weight. `codes` (rows / 4, cols) holds 2-bit codes of the rows r, r + rows / 4
/// and so on in each byte, lowest bits first; 0, 1 and 2 stand for -1, 0 and 1. The codes are
/// multiplied or divided by the number in `scale`, depending on the layer class in config.json. The
/// result is TQ2_0 if rows are whole blocks and the scale fits f16, otherwise f32. Throws kFormat
/// naming the tensor. Source: transformers, integrations/bitnet.py.
TensorView make_ternary_view(const StoredTensor& codes, const StoredTensor& scale,
                             const Json& config);

}  // namespace veery
