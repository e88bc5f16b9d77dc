// snapshot.h: GGUF models in a folder, and the snapshots of the Hugging Face cache.
#pragma once
#include <string>
#include <vector>

namespace veery {

/// Returns the names in a folder except hidden files, sorted. Throws as list_folder() does.
std::vector<std::string> visible_names(const std::string& folder);

/// Returns whether `names` contain safetensors files.
bool has_weights(const std::vector<std::string>& names);

/// Removes the part number, "m-00002-of-00003.gguf" to "m-of-00003.gguf", so that all parts of a
/// split file get the same name. Returns other names unchanged.
std::string without_part(const std::string& name);

/// Returns the first part of each GGUF model among the sorted file names `names`, sorted by
/// without_part(). Image projectors (*mmproj*) are excluded.
std::vector<std::string> first_parts(const std::vector<std::string>& names);

/// As first_parts() for entries of a folder; subfolders are excluded.
std::vector<std::string> gguf_models(const std::string& folder,
                                     const std::vector<std::string>& names);

/// Returns the snapshot of a Hugging Face cache folder (models--ORG--NAME) that refs/main names, or
/// else the newest one. Throws kNotFound if there is none.
std::string snapshot_of(const std::string& folder);

}  // namespace veery
