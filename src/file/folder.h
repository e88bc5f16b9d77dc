// folder.h: model folders as Hugging Face's transformers writes them.
#pragma once
#include <string>

#include "base/json.h"
#include "file/model_file.h"

namespace veery {

/// Opens config.json and the weights beside it: those that model.safetensors.index.json names, else
/// model.safetensors, else all *.safetensors but adapters and second copies (consolidated*).
/// Tensors keep the names of the files; where weights have scales beside them (fp8:
/// `weight_scale_inv`, `weight_scale`), the scaled values are one tensor. Throws kNotFound, kFormat
/// or kUnsupported in one line that names file and tensor.
ModelFile open_folder(const std::string& path);

/// Whether `path` is a folder.
bool is_folder(const std::string& path);

/// Parses a JSON file of a folder whose top level is an object. Throws kNotFound, or kFormat if it
/// is larger than `max_bytes` or no such JSON.
Json read_json_file(const std::string& path, size_t max_bytes = size_t{16} << 20);

}  // namespace veery
