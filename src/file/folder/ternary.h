// ternary.h: weights of -1, 0 and 1 as folders of BitNet pack them.
#pragma once
#include "base/json.h"
#include "file/folder/safetensors.h"
#include "file/model_file.h"

namespace veery {

/// Whether the folder with this config.json has such weights. Throws kUnsupported for those that
/// are to be rounded when they are loaded.
bool has_ternary_weights(const Json& config);

/// `codes` (rows / 4, cols) bytes: two bits, the lowest first, of the rows r, r + rows / 4 and so
/// on; 0, 1 and 2 stand for -1, 0 and 1. Times `scale`, one number, or divided by it, as the class
/// of config.json does it. As TQ2_0 where rows are whole blocks and f16 has the scale, else as f32.
/// Throws kFormat naming the tensor. Source: transformers, integrations/bitnet.py.
TensorView make_ternary_view(const StoredTensor& codes, const StoredTensor& scale,
                             const Json& config);

}  // namespace veery
