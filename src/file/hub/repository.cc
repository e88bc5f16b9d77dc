#include "file/hub/repository.h"

#include <cctype>
#include <filesystem>

#include "base/error.h"
#include "base/printable.h"
#include "file/hub/snapshot.h"

namespace veery {
namespace {

constexpr std::string_view kGguf = ".gguf";
constexpr std::string_view kUsualType = "Q4_K_M";

[[noreturn]] void refuse(const std::string& name, const std::string& place,
                         const std::vector<std::string>& models) {
  throw Error(ErrorKind::kInput,
              "{}: matches several files of {}, expected ORG/NAME:FILE with the name of one: {}",
              name, place, some_of(models, 20));
}

}  // namespace

std::string lower_ascii(std::string_view text) {
  std::string small(text);
  for (char& c : small) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return small;
}

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

RepositoryFile parse_repository(const std::string& name) {
  const size_t colon = name.find(':');
  RepositoryFile found{name.substr(0, colon),
                       colon == std::string::npos ? "" : name.substr(colon + 1)};
  if (!is_repository(found.repository) || (colon != std::string::npos && found.file.empty()))
    return {};
  return found;
}

std::string cache_folder(const std::string& repository) {
  std::string name = repository;
  if (const size_t slash = name.find('/'); slash != std::string::npos) name.replace(slash, 1, "--");
  return std::string(kCacheFolderPrefix) + name;
}

std::string model_stem(const std::string& model) {
  constexpr std::string_view kPart = "-00000-of-00000";
  const std::string name = std::filesystem::path(model).filename().string();
  const bool part = without_part(name) != name;
  return name.substr(0, name.size() - kGguf.size() - (part ? kPart.size() : 0));
}

std::vector<std::string> matching_models(const std::vector<std::string>& models,
                                         std::string_view file) {
  std::string wanted = lower_ascii(file);
  if (wanted.ends_with(kGguf)) wanted.resize(wanted.size() - kGguf.size());
  std::vector<std::string> same, ending;
  for (const std::string& model : models) {
    const std::string stem = lower_ascii(model_stem(model));
    if (stem == wanted) same.push_back(model);
    if (stem.ends_with("-" + wanted) || stem.ends_with("." + wanted)) ending.push_back(model);
  }
  return same.empty() ? ending : same;
}

std::string choose_gguf(const std::string& name, const std::string& file, const std::string& place,
                        const std::vector<std::string>& models) {
  if (file.empty()) {
    const std::vector<std::string> usual = matching_models(models, kUsualType);
    if (usual.size() == 1) return usual.front();
    if (models.size() == 1) return models.front();
    refuse(name, place, models);
  }
  const std::vector<std::string> found = matching_models(models, file);
  if (found.empty())
    throw Error(ErrorKind::kNotFound, "{}: no file named {} in {}, found {}", name, printable(file),
                place, some_of(models, 20));
  if (found.size() > 1) refuse(name, place, found);
  return found.front();
}

}  // namespace veery
