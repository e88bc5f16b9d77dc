// config_keys.h: detects unknown keys in config.json.
#pragma once
#include <string>
#include <vector>

#include "file/model_file.h"

namespace veery {

/// Returns the keys of a folder's config.json, including its text part, that are neither read nor
/// known to be irrelevant. Keys whose value is null, false, empty or 0 are skipped. Empty for a
/// file without config.json.
std::vector<std::string> unknown_config_keys(const ModelFile& file);

/// Throws kUnsupported naming the unknown keys, because they may change what the model computes.
void refuse_unknown_config_keys(const ModelFile& file);

/// Returns whether a key is read for any family.
bool is_read_config_key(std::string_view key);

}  // namespace veery
