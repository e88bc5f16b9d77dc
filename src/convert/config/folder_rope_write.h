// folder_rope_write.h: generates the RoPE settings of config.json.
#pragma once
#include "base/json.h"
#include "import/folder/folder_types.h"
#include "model/config.h"

namespace veery {

/// Returns the number with the fewest digits that rounds to this float.
double shortest(float value);

/// Returns rope_parameters: one set, or one per type of layer if `type` has two. Divisors in a GGUF
/// file become llama3 parameters if these yield the same divisors, otherwise longrope divisors.
Json rope_parameters(const ModelFile& file, const TransformerConfig& c, const FolderType& type);

/// Adds the keys of older programs, derived from rope_parameters: rope_theta, rope_scaling,
/// rope_local_base_freq.
void add_old_rope_keys(Json& config, const FolderType& type);

}  // namespace veery
