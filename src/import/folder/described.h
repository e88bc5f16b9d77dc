// described.h: config.json under the names that most families use.
#pragma once
#include <map>
#include <string>

#include "base/json.h"
#include "file/model_file.h"
#include "import/folder/folder_types.h"
#include "import/folder/json_fields.h"

namespace veery {

/// The row of a folder, from model_type, `architectures`, or its tensors (any names); nullptr if it
/// is not known, with `found` set to what the file calls it.
const FolderType* find_type(const ModelFile& file, std::string& found);

/// What config.json says of the text model: all of it, or its text_config.
const Json& text_config(const Json& config);

/// The text part under the names that most families use, and what the file calls them.
struct Described {
  Json config;
  std::map<std::string, std::string> names;
};
/// Throws kUnsupported where a key differs between layers that have to be alike.
Described described(const ModelFile& file);

/// Reads `described`, which has to last as long.
JsonFields fields_of(const ModelFile& file, const Described& described, const FolderType* type);

}  // namespace veery
