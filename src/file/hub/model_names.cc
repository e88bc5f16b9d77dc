#include "file/hub/model_names.h"

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <filesystem>
#include <string_view>

#include "base/error.h"
#include "base/foreign_file.h"
#include "base/printable.h"
#include "file/hub/snapshot.h"

namespace veery {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kGguf = ".gguf";
constexpr std::string_view kCacheFolder = "models--";
constexpr std::string_view kUsualType = "Q4_K_M";

// As in scripts/models.sh.
struct KnownModel {
  std::string_view name, file;
};
constexpr KnownModel kKnownModels[] = {
    {"smollm2", "SmolLM2-135M-Instruct.Q4_1.gguf"},
    {"gemma3", "gemma-3-270m-Q4_K_M.gguf"},
    {"minilm", "all-MiniLM-L6-v2/model.safetensors"},
};

const KnownModel* known_model(std::string_view name) {
  const auto* found = std::ranges::find(kKnownModels, name, &KnownModel::name);
  return found == std::end(kKnownModels) ? nullptr : found;
}

std::string variable(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

// "~" is the home, as in the variables that the Hugging Face library reads.
std::string expanded(const std::string& path) {
  if (path != "~" && !path.starts_with("~/")) return path;
  return variable("HOME") + path.substr(1);
}

std::string join(const std::string& folder, std::string_view name) {
  return (fs::path(folder) / name).string();
}

std::string lower(std::string_view text) {
  std::string small(text);
  for (char& c : small) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return small;
}

// "ORG/NAME" or "NAME", as the hub allows them.
bool is_repository(std::string_view name) {
  size_t slashes = 0;
  for (size_t i = 0; i < name.size(); ++i) {
    const auto c = static_cast<unsigned char>(name[i]);
    if (c == '/')
      ++slashes;
    else if (std::isalnum(c) == 0 && c != '-' && c != '_' && c != '.')
      return false;
    const bool begins = i == 0 || name[i - 1] == '/';
    if (begins && (c == '/' || c == '.' || c == '-')) return false;
  }
  return !name.empty() && slashes <= 1 && !name.ends_with('/') &&
         name.find("--") == std::string_view::npos && name.find("..") == std::string_view::npos;
}

struct Wanted {
  std::string repository, file;
};

// Parts of ORG/NAME[:FILE]; no repository if `name` is not of that form.
Wanted parse(const std::string& name) {
  const size_t colon = name.find(':');
  Wanted wanted{name.substr(0, colon), colon == std::string::npos ? "" : name.substr(colon + 1)};
  if (!is_repository(wanted.repository) || (colon != std::string::npos && wanted.file.empty()))
    return {};
  return wanted;
}

// What a known model is run from; empty if it is not there. Weights stand for their folder.
std::string path_of(const KnownModel& known, const ModelPlaces& places) {
  const std::string file = join(places.own, known.file);
  if (!path_exists(file)) return "";
  return known.file.ends_with(kGguf) ? file : fs::path(file).parent_path().string();
}

std::string folder_name(const std::string& repository) {
  std::string name = repository;
  if (const size_t slash = name.find('/'); slash != std::string::npos) name.replace(slash, 1, "--");
  return std::string(kCacheFolder) + name;
}

// The GGUF models of a snapshot and of the folders in it, as paths from there.
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

// The file name without number of the part and ending.
std::string stem_of(const std::string& model) {
  constexpr std::string_view kPart = "-00000-of-00000";
  const std::string name = fs::path(model).filename().string();
  const bool part = without_part(name) != name;
  return name.substr(0, name.size() - kGguf.size() - (part ? kPart.size() : 0));
}

// The models that `file` can mean: by the whole name, else by the last words of the name.
std::vector<std::string> matching(const std::vector<std::string>& models, std::string_view file) {
  std::string wanted = lower(file);
  if (wanted.ends_with(kGguf)) wanted.resize(wanted.size() - kGguf.size());
  std::vector<std::string> same, ending;
  for (const std::string& model : models) {
    const std::string stem = lower(stem_of(model));
    if (stem == wanted) same.push_back(model);
    if (stem.ends_with("-" + wanted) || stem.ends_with("." + wanted)) ending.push_back(model);
  }
  return same.empty() ? ending : same;
}

[[noreturn]] void refuse(const std::string& name, const std::string& snapshot,
                         const std::vector<std::string>& models, const char* what) {
  throw Error(ErrorKind::kInput, "{}: {} of {}, expected ORG/NAME:FILE with the name of one: {}",
              name, what, snapshot, some_of(models, 20));
}

bool is_model_folder(const std::string& snapshot) {
  return path_exists(join(snapshot, "config.json")) && has_weights(visible_names(snapshot));
}

std::string choose(const std::string& name, const Wanted& wanted, const std::string& snapshot,
                   ModelPart part) {
  if (wanted.file.empty() && is_model_folder(snapshot)) return snapshot;
  const std::vector<std::string> models = ggufs_of(snapshot);
  if (models.empty() && wanted.file.empty() && part == ModelPart::kText) return snapshot;
  if (models.empty())
    throw Error(ErrorKind::kNotFound, "{}: {} holds {}, expected {}", name, snapshot,
                wanted.file.empty() ? "no model" : "no GGUF file",
                wanted.file.empty() ? "a GGUF file, or config.json with *.safetensors"
                                    : "one called " + printable(wanted.file));
  if (wanted.file.empty()) {
    const std::vector<std::string> usual = matching(models, kUsualType);
    if (usual.size() == 1) return join(snapshot, usual.front());
    if (models.size() == 1) return join(snapshot, models.front());
    refuse(name, snapshot, models, "could be several files");
  }
  const std::vector<std::string> found = matching(models, wanted.file);
  if (found.empty())
    throw Error(ErrorKind::kNotFound, "{}: no file is called {} in {}, there are: {}", name,
                printable(wanted.file), snapshot, some_of(models, 20));
  if (found.size() > 1) refuse(name, snapshot, found, "could be several files");
  return join(snapshot, found.front());
}

// Of the files that are parts of the model `first` too.
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

// The shortest FILE that means the model `path` alone: the last word of its name, or the name.
std::string file_for(const std::string& path, const std::vector<std::string>& models) {
  const std::string stem = stem_of(path);
  const size_t cut = stem.find_last_of("-.");
  if (cut != std::string::npos && cut + 1 < stem.size()) {
    const std::string word = stem.substr(cut + 1);
    if (matching(models, word).size() == 1) return word;
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

ModelPlaces model_places() {
  std::string cache = expanded(variable("XDG_CACHE_HOME"));
  if (cache.empty()) cache = join(variable("HOME"), ".cache");
  ModelPlaces places{variable("VEERY_MODELS"), expanded(variable("HF_HUB_CACHE"))};
  if (places.own.empty()) places.own = join(cache, "veery/models");
  std::string home = expanded(variable("HF_HOME"));
  if (home.empty()) home = join(cache, "huggingface");
  if (places.hub.empty()) places.hub = join(home, "hub");
  return places;
}

std::string find_named_model(const std::string& name, const ModelPlaces& places, ModelPart part) {
  if (const KnownModel* known = known_model(name)) return path_of(*known, places);
  const Wanted wanted = parse(name);
  if (wanted.repository.empty()) return "";
  const std::string folder = join(places.hub, folder_name(wanted.repository));
  if (!is_folder(join(folder, "snapshots"))) return "";
  return choose(name, wanted, snapshot_of(folder), part);
}

std::string where_looked(const std::string& name, const ModelPlaces& places) {
  if (const KnownModel* known = known_model(name))
    return fmt::format(", nor {}: 'scripts/models.sh {}' fetches it", join(places.own, known->file),
                       name);
  const Wanted wanted = parse(name);
  if (wanted.repository.empty() || lower(name).ends_with(kGguf)) return "";
  if (wanted.repository.find('/') != std::string::npos)
    return fmt::format(", nor {}, and nothing is fetched: 'hf download {}' does",
                       join(places.hub, folder_name(wanted.repository)), wanted.repository);
  std::string names;
  for (const KnownModel& known : kKnownModels) names += fmt::format("{}, ", known.name);
  return fmt::format(", nor a model of that name: there are {}and ORG/NAME of those in {}", names,
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
    if (!folder.starts_with(kCacheFolder)) continue;
    std::string repository = folder.substr(kCacheFolder.size());
    if (const size_t mark = repository.find("--"); mark != std::string::npos)
      repository.replace(mark, 2, "/");
    if (is_repository(repository)) add_repository(repository, join(places.hub, folder), models);
  }
  return models;
}

}  // namespace veery
