// snapshot.h: the models in a folder, and the folder of a model in Hugging Face's cache.
#pragma once
#include <string>
#include <vector>

namespace veery {

/// The names in a folder but for hidden files, sorted. Throws as list_folder().
std::vector<std::string> visible_names(const std::string& folder);

/// Whether some of `names` are safetensors.
bool has_weights(const std::vector<std::string>& names);

/// "m-00002-of-00003.gguf" as "m-of-00003.gguf": parts of one file have the same. Other names
/// unchanged.
std::string without_part(const std::string& name);

/// Of the files `names`, the first part of each GGUF model, sorted by without_part(); projectors of
/// images (*mmproj*) are none. `names` are sorted.
std::vector<std::string> first_parts(const std::vector<std::string>& names);

/// The same of the files `names` in a folder; folders are none.
std::vector<std::string> gguf_models(const std::string& folder,
                                     const std::vector<std::string>& names);

/// The snapshot of a folder of Hugging Face's cache (models--ORG--NAME) that refs/main names, else
/// the newest one. Throws kNotFound if there is none.
std::string snapshot_of(const std::string& folder);

}  // namespace veery
