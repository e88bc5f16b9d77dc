// config_keys.h: keys of config.json that nothing here reads.
#pragma once
#include <string>
#include <vector>

#include "file/model_file.h"

namespace veery {

/// Keys of a folder's config.json, also of its text part, that ask for something and are neither
/// read nor known to leave the result as it is. Keys whose value is null, false, empty or 0 ask for
/// nothing. Empty for a file without config.json.
std::vector<std::string> unknown_config_keys(const ModelFile& file);

/// Throws kUnsupported naming these keys: a model may compute something else with them.
void refuse_unknown_config_keys(const ModelFile& file);

/// Whether a key is read, for any family.
bool is_read_config_key(std::string_view key);

}  // namespace veery
