// folder_rope_write.h: rotary positions as config.json of transformers describes them.
#pragma once
#include "base/json.h"
#include "import/folder/folder_types.h"
#include "model/config.h"

namespace veery {

/// The number with the fewest digits that is this float.
double shortest(float value);

/// rope_parameters: one set, or one for each type of layer where `type` has two. Divisors that a
/// GGUF file holds become llama3's parameters where these give the same, else those of longrope.
Json rope_parameters(const ModelFile& file, const TransformerConfig& c, const FolderType& type);

/// From rope_parameters what older programs read: rope_theta, rope_scaling, rope_local_base_freq.
void add_old_rope_keys(Json& config, const FolderType& type);

}  // namespace veery
