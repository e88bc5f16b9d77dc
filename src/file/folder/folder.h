// folder.h: model folders in the layout of Hugging Face transformers.
#pragma once
#include <map>
#include <string>
#include <vector>

#include "base/json_reader.h"
#include "base/untrusted_file.h"
#include "file/model_file.h"

namespace veery {

/// Opens config.json and the weights next to it: the files that model.safetensors.index.json lists,
/// or else model.safetensors, or else all *.safetensors except adapters and duplicates
/// (consolidated*). Tensors keep their names. Weights with separate scales (fp8:
/// `weight_scale_inv`, `weight_scale`) become one tensor of scaled values. Throws kNotFound,
/// kFormat or kUnsupported with a one-line message that names file and tensor.
ModelFile open_folder(const std::string& path);

/// Returns the names of the files that open_folder() reads weights from, at least one. Throws as
/// open_folder() does.
std::vector<std::string> weight_files(const std::string& folder);

/// Parses a configuration file: JSON whose top level is an object. Throws kNotFound, kLimit, or
/// kFormat for anything else.
Json read_json_file(const std::string& path);

/// As read_json_file() for files written by Python, which may contain numbers that JSON lacks: a
/// bare Infinity, -Infinity or NaN becomes {"__float__": "Infinity"}, the notation of newer
/// writers.
Json read_python_json(const std::string& path);
std::string with_named_numbers(std::string_view text);

/// The weight files of a folder and, if there is an index, the file of each tensor.
struct ShardIndex {
  std::vector<std::string> files;  ///< names in the folder, sorted
  /// Tensor -> file; empty: every tensor of every file.
  std::map<std::string, std::string> owner_of;
};

/// Parses model.safetensors.index.json. Throws kFormat naming `path` and the fault, including file
/// names that would lie outside the folder.
ShardIndex parse_shard_index(const JsonText& text, const std::string& path);

}  // namespace veery
