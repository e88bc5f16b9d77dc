// folder.h: model folders as Hugging Face's transformers writes them.
#pragma once
#include <map>
#include <string>
#include <vector>

#include "base/json_reader.h"
#include "base/untrusted_file.h"
#include "file/model_file.h"

namespace veery {

/// Opens config.json and the weights beside it: those that model.safetensors.index.json names, else
/// model.safetensors, else all *.safetensors but adapters and second copies (consolidated*).
/// Tensors keep the names of the files; where weights have scales beside them (fp8:
/// `weight_scale_inv`, `weight_scale`), the scaled values are one tensor. Throws kNotFound, kFormat
/// or kUnsupported in one line that names file and tensor.
ModelFile open_folder(const std::string& path);

/// The names of the files that open_folder() takes weights from, at least one. Throws likewise.
std::vector<std::string> weight_files(const std::string& folder);

/// Parses a configuration: JSON whose top level is an object. Throws kNotFound, kLimit, or kFormat
/// if it is no such JSON.
Json read_json_file(const std::string& path);

/// The same of what Python wrote, which has names for numbers that JSON has none for: a bare
/// Infinity, -Infinity or NaN becomes {"__float__": "Infinity"}, as newer writers have it.
Json read_python_json(const std::string& path);
std::string with_named_numbers(std::string_view text);

/// The files of a folder and, where an index says it, which of them has which tensor.
struct ShardIndex {
  std::vector<std::string> files;               ///< names in the folder, sorted
  std::map<std::string, std::string> owner_of;  ///< tensor -> file; empty: all of all files
};

/// Reads what model.safetensors.index.json holds. Throws kFormat naming `path` and what is wrong,
/// also for a file that would lie outside of the folder.
ShardIndex parse_shard_index(const JsonText& text, const std::string& path);

}  // namespace veery
