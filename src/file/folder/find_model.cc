#include "file/folder/find_model.h"

#include <algorithm>
#include <filesystem>
#include <vector>

#include "base/error.h"
#include "base/printable.h"
#include "base/untrusted_file.h"
#include "file/folder/folder.h"
#include "file/hub/snapshot.h"

namespace veery {
namespace {

namespace fs = std::filesystem;

constexpr size_t kMostListed = 20;

[[noreturn]] void refuse_several(const std::string& folder, const std::vector<std::string>& files) {
  std::string list;
  for (size_t i = 0; i < std::min(files.size(), kMostListed); ++i)
    list += (list.empty() ? "" : ", ") + printable(files[i]);
  if (files.size() > kMostListed) list += ", ...";
  throw Error(ErrorKind::kInput, "{}: contains {} GGUF models, expected the name of one: {}",
              folder, files.size(), list);
}

std::string find_in_folder(const std::string& folder, ModelPart part) {
  const std::vector<std::string> names = visible_names(folder);
  const auto has = [&](const char* name) {
    return std::ranges::binary_search(names, std::string_view(name), {},
                                      [](const std::string& s) { return std::string_view(s); });
  };
  if (has("config.json") && has_weights(names)) return folder;
  const std::vector<std::string> models = gguf_models(folder, names);
  if (models.size() > 1) refuse_several(folder, models);
  if (models.size() == 1) return (fs::path(folder) / models.front()).string();
  if (part == ModelPart::kText || has("config.json")) return folder;
  if (has("adapter_config.json"))
    throw Error(ErrorKind::kUnsupported,
                "{}: contains an adapter (adapter_config.json), expected a whole model", folder);
  throw Error(ErrorKind::kNotFound,
              "{}: contains no model, expected a GGUF file, or config.json with *.safetensors",
              folder);
}

// Returns the folder that contains `path`.
std::string folder_of(const std::string& path) {
  const fs::path folder = fs::path(path).parent_path();
  return folder.empty() ? "." : folder.string();
}

std::string folder_of_weights(const std::string& path) {
  const std::string folder = folder_of(path);
  if (!path_exists(folder + "/config.json"))
    throw Error(ErrorKind::kNotFound,
                "{}: no config.json in its folder, expected weights of a model folder", path);
  const std::vector<std::string> files = weight_files(folder);
  const std::string name = fs::path(path).filename().string();
  if (std::ranges::find(files, name) == files.end())
    throw Error(ErrorKind::kInput,
                "{}: is not among the weights of its folder, expected for example {}", path,
                printable(files.front()));
  return folder;
}

std::string find_by_file(const std::string& path, ModelPart part) {
  const std::string name = fs::path(path).filename().string();
  if (name.ends_with(".safetensors")) return folder_of_weights(path);
  if (name == "config.json" || name.ends_with(".safetensors.index.json")) return folder_of(path);
  if (part == ModelPart::kText) return name == "tokenizer_config.json" ? folder_of(path) : path;
  if (name.ends_with(".json"))
    throw Error(ErrorKind::kFormat,
                "{}: is not a model, expected a GGUF file, a model folder or a file of its weights",
                path);
  return path;
}

}  // namespace

std::string find_model(const std::string& path, ModelPart part) {
  if (!is_folder(path)) {
    if (path_exists(path)) return find_by_file(path, part);
    const ModelPlaces places = model_places();
    const std::string named = find_named_model(path, places, part);
    if (named.empty())
      throw Error(ErrorKind::kNotFound, "{}: no such file or folder{}", path,
                  where_looked(path, places));
    return named;
  }
  if (!is_folder((fs::path(path) / "snapshots").string()) || path_exists(path + "/config.json"))
    return find_in_folder(path, part);
  return find_in_folder(snapshot_of(path), part);
}

}  // namespace veery
