// folder_config.h: config.json of transformers.
#pragma once
#include <optional>
#include <string_view>

#include "base/json.h"
#include "import/folder/folder_rope.h"
#include "import/folder/folder_types.h"
#include "import/folder/json_fields.h"
#include "model/config.h"

namespace veery {

/// config.json as written by transformers 4 (rope_theta, rope_scaling) and 5 (rope_parameters),
/// also nested in text_config; what it leaves out is worked out from the weights, or is
/// transformers' default. Tensors must have our names already (open_model). Throws as read_config.
TransformerConfig read_folder_config(const ModelFile& file);

/// Our name of the architecture of a folder, from model_type, `architectures`, or its tensors (any
/// names); empty if it is not known, with `found` set to what the file calls it.
std::string_view folder_architecture(const ModelFile& file, std::string& found);

/// The numbers of layers that config.json gives, 0 where it gives none: those of the model, and
/// those behind them that predict further tokens.
struct FolderLayers {
  int64_t own = 0, further = 0;
};
FolderLayers folder_layers(const ModelFile& file);

/// The row of folder_types() for a folder, found in the same way; nullptr if it is not known.
const FolderType* find_folder_type(const ModelFile& file);

/// Fills in what differs between layers with a window and without, and the layers that read keys of
/// others. c.layers, c.local, c.heads and the sizes of heads must be those that most layers have.
/// Throws kUnsupported where layers of one kind differ.
void read_layer_sizes(const JsonFields& fields, const ModelFile& file, TransformerConfig& c);

/// Whether config.json says, or its type implies, that the output head is the embedding; absent if
/// neither does. A head in the file that differs is used all the same.
std::optional<bool> says_tied_head(const ModelFile& file);

/// The divisors of frequencies that config.json holds or means.
RopeFactors folder_rope_factors(const ModelFile& file);

/// rope_parameters that say alone what all keys of a folder's config.json together do.
Json folder_rope_parameters(const ModelFile& file, const FolderType& type);

}  // namespace veery
