#include "file/folder/find_model.h"

#include <algorithm>
#include <filesystem>
#include <map>
#include <vector>

#include "base/error.h"
#include "base/foreign_file.h"
#include "base/mapped_file.h"
#include "base/printable.h"
#include "file/folder/folder.h"

namespace veery {
namespace {

namespace fs = std::filesystem;

constexpr size_t kMostListed = 20;

// Names of what is in a folder, but for hidden files, in order.
std::vector<std::string> names_in(const std::string& folder) {
  std::vector<std::string> names = list_folder(folder);
  std::erase_if(names, [](const std::string& name) { return name.starts_with('.'); });
  return names;
}

bool has_weights(const std::vector<std::string>& names) {
  return std::ranges::any_of(
      names, [](const std::string& name) { return name.ends_with(".safetensors"); });
}

// "model-00002-of-00003.gguf" without its number: parts of one file have the same.
std::string without_part(const std::string& name) {
  constexpr std::string_view kForm = "-00000-of-00000.gguf";
  if (name.size() <= kForm.size()) return name;
  const std::string_view end = std::string_view(name).substr(name.size() - kForm.size());
  for (size_t i = 0; i < kForm.size(); ++i) {
    const bool digit = end[i] >= '0' && end[i] <= '9';
    if (kForm[i] == '0' ? !digit : end[i] != kForm[i]) return name;
  }
  return name.substr(0, name.size() - kForm.size()) + std::string(end.substr(6));
}

// The first part of each GGUF model in a folder.
std::vector<std::string> gguf_models(const std::string& folder,
                                     const std::vector<std::string>& names) {
  std::map<std::string, std::string> models;
  for (const std::string& name : names)
    if (name.ends_with(".gguf") && name.find("mmproj") == std::string::npos &&
        !is_folder((fs::path(folder) / name).string()))
      models.emplace(without_part(name), name);
  std::vector<std::string> firsts;
  for (const auto& [whole, first] : models) firsts.push_back(first);
  return firsts;
}

[[noreturn]] void refuse_several(const std::string& folder, const std::vector<std::string>& files) {
  std::string list;
  for (size_t i = 0; i < std::min(files.size(), kMostListed); ++i)
    list += (list.empty() ? "" : ", ") + printable(files[i]);
  if (files.size() > kMostListed) list += ", ...";
  throw Error(ErrorKind::kInput, "{}: holds {} GGUF models, name one of them: {}", folder,
              files.size(), list);
}

// The snapshot that a reference of the cache names; empty if there is none.
std::string named_snapshot(const std::string& folder) {
  constexpr size_t kLongest = 256;
  const std::string reference = (fs::path(folder) / "refs" / "main").string();
  if (!path_exists(reference)) return "";
  const MappedFile file(reference);
  if (file.text().size() > kLongest) return "";
  std::string name(file.text());
  while (!name.empty() && (name.back() == '\n' || name.back() == '\r')) name.pop_back();
  const bool plain = !name.empty() &&
                     name.find_first_of(std::string_view("/\\\0", 3)) == std::string::npos &&
                     !name.starts_with('.');
  if (!plain) return "";
  const std::string snapshot = (fs::path(folder) / "snapshots" / name).string();
  return is_folder(snapshot) ? snapshot : "";
}

std::string newest_snapshot(const std::string& folder) {
  const std::string snapshots = (fs::path(folder) / "snapshots").string();
  std::string newest;
  fs::file_time_type time;
  for (const std::string& name : names_in(snapshots)) {
    const std::string snapshot = (fs::path(snapshots) / name).string();
    std::error_code code;
    const fs::file_time_type changed = fs::last_write_time(snapshot, code);
    if (code || !is_folder(snapshot) || (!newest.empty() && changed <= time)) continue;
    newest = snapshot;
    time = changed;
  }
  if (newest.empty())
    throw Error(ErrorKind::kNotFound, "{}: is empty, expected a snapshot of a model", snapshots);
  return newest;
}

std::string find_in_folder(const std::string& folder, ModelPart part) {
  const std::vector<std::string> names = names_in(folder);
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
                "{}: holds an adapter (adapter_config.json), expected a whole model", folder);
  throw Error(ErrorKind::kNotFound,
              "{}: holds no model: expected a GGUF file, or config.json with *.safetensors",
              folder);
}

// The folder of a file of a model folder.
std::string folder_of(const std::string& path) {
  const fs::path folder = fs::path(path).parent_path();
  return folder.empty() ? "." : folder.string();
}

std::string folder_of_weights(const std::string& path) {
  const std::string folder = folder_of(path);
  if (!path_exists(folder + "/config.json"))
    throw Error(ErrorKind::kNotFound,
                "{}: there is no config.json beside it, expected weights in a model folder", path);
  const std::vector<std::string> files = weight_files(folder);
  const std::string name = fs::path(path).filename().string();
  if (std::ranges::find(files, name) == files.end())
    throw Error(ErrorKind::kInput,
                "{}: is not among the weights of its folder, which begin with {}", path,
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
                "{}: is no model, expected a GGUF file, a model folder or a file of its weights",
                path);
  return path;
}

// "org/name" as on Hugging Face, and not a path of one's own.
bool looks_remote(const std::string& path) {
  const size_t slash = path.find('/');
  return slash != std::string::npos && slash > 0 && slash + 1 < path.size() &&
         path.find('/', slash + 1) == std::string::npos && !path.starts_with('.') &&
         !path.starts_with('~') && !path.ends_with(".gguf") &&
         !path_exists(fs::path(path).parent_path().string());
}

}  // namespace

std::string find_model(const std::string& path, ModelPart part) {
  if (!is_folder(path)) {
    if (!path_exists(path))
      throw Error(ErrorKind::kNotFound, "{}: there is no such file or folder{}", path,
                  looks_remote(path) ? ", and nothing is fetched: expected a path" : "");
    return find_by_file(path, part);
  }
  if (!is_folder((fs::path(path) / "snapshots").string()) || path_exists(path + "/config.json"))
    return find_in_folder(path, part);
  const std::string named = named_snapshot(path);
  return find_in_folder(named.empty() ? newest_snapshot(path) : named, part);
}

}  // namespace veery
