// folder_config.h: reads config.json of transformers.
#pragma once
#include <optional>
#include <string_view>

#include "base/json.h"
#include "import/folder/folder_rope.h"
#include "import/folder/folder_types.h"
#include "import/folder/json_fields.h"
#include "model/config.h"

namespace veery {

/// Reads config.json as written by transformers 4 (rope_theta, rope_scaling) and 5
/// (rope_parameters), including a nested text_config. Omitted values are derived from the weights
/// or take transformers' defaults. Tensors must already have GGUF names (open_model). Throws as
/// read_config().
TransformerConfig read_folder_config(const ModelFile& file);

/// Returns our name of a folder's architecture, found by model_type, `architectures` or its tensors
/// (with any names); empty if unknown. Sets `found` to the type as stated in the file.
std::string_view folder_architecture(const ModelFile& file, std::string& found);

/// The numbers of layers in config.json, 0 if not stated: regular layers, and MTP layers after
/// them.
struct FolderLayers {
  int64_t own = 0, further = 0;
};
FolderLayers folder_layers(const ModelFile& file);

/// Returns the row of folder_types() of a folder, found in the same way; nullptr if unknown.
const FolderType* find_folder_type(const ModelFile& file);

/// Fills in the sizes that differ between layers with and without a window, and the layers that
/// share the KV cache of other layers. c.layers, c.attention.local, c.attention.heads and the sizes
/// of heads must be set to those of most layers. Throws kUnsupported if layers of one kind differ.
void read_layer_sizes(const JsonFields& fields, const ModelFile& file, TransformerConfig& c);

/// Returns whether config.json states, or its type implies, that the output head is the embedding;
/// nullopt if neither. A different head in the file is used regardless.
std::optional<bool> says_tied_head(const ModelFile& file);

/// Returns the RoPE frequency divisors that config.json contains or implies.
RopeFactors folder_rope_factors(const ModelFile& file);

/// Returns a single rope_parameters object equivalent to all RoPE keys of a folder's config.json.
Json folder_rope_parameters(const ModelFile& file, const FolderType& type);

}  // namespace veery
