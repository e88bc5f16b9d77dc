#include "file/hub/snapshot.h"

#include <algorithm>
#include <filesystem>
#include <map>
#include <string_view>

#include "base/error.h"
#include "base/mapped_file.h"
#include "base/untrusted_file.h"

namespace veery {
namespace {

namespace fs = std::filesystem;

// Returns the snapshot that refs/main of a cache folder names; empty if there is none.
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
  for (const std::string& name : visible_names(snapshots)) {
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

}  // namespace

std::vector<std::string> visible_names(const std::string& folder) {
  std::vector<std::string> names = list_folder(folder);
  std::erase_if(names, [](const std::string& name) { return name.starts_with('.'); });
  return names;
}

bool has_weights(const std::vector<std::string>& names) {
  return std::ranges::any_of(
      names, [](const std::string& name) { return name.ends_with(".safetensors"); });
}

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

std::vector<std::string> first_parts(const std::vector<std::string>& names) {
  std::map<std::string, std::string> models;
  for (const std::string& name : names)
    if (name.ends_with(".gguf") && name.find("mmproj") == std::string::npos)
      models.emplace(without_part(name), name);
  std::vector<std::string> firsts;
  for (const auto& [whole, first] : models) firsts.push_back(first);
  return firsts;
}

std::vector<std::string> gguf_models(const std::string& folder,
                                     const std::vector<std::string>& names) {
  std::vector<std::string> files;
  for (const std::string& name : names)
    if (name.ends_with(".gguf") && !is_folder((fs::path(folder) / name).string()))
      files.push_back(name);
  return first_parts(files);
}

std::string snapshot_of(const std::string& folder) {
  const std::string named = named_snapshot(folder);
  return named.empty() ? newest_snapshot(folder) : named;
}

}  // namespace veery
