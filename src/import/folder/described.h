// described.h: config.json with the key names of most families.
#pragma once
#include <map>
#include <string>

#include "base/json.h"
#include "file/model_file.h"
#include "import/folder/folder_types.h"
#include "import/folder/json_fields.h"

namespace veery {

/// Returns the row of a folder, found by model_type, `architectures` or its tensors (with any
/// names); nullptr if the type is unknown. Sets `found` to the type as stated in the file.
const FolderType* find_type(const ModelFile& file, std::string& found);

/// Returns the description of the text model: the whole config.json, or its text_config.
const Json& text_config(const Json& config);

/// The text part with common key names, and the original name of each renamed key.
struct Described {
  Json config;
  std::map<std::string, std::string> names;
};
/// Throws kUnsupported if a key differs between layers but must not.
Described described(const ModelFile& file);

/// Returns a reader of `described`, which must outlive it.
JsonFields fields_of(const ModelFile& file, const Described& described, const FolderType* type);

}  // namespace veery
