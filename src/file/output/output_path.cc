#include "file/output/output_path.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <optional>

#include "base/error.h"
#include "base/untrusted_file.h"
#include "file/hub/model_names.h"

namespace veery {
namespace {

namespace fs = std::filesystem;

constexpr int kMaxLinks = 40;  // the limit of Linux

// Returns the status of `path`, following links; nullopt if it does not exist.
std::optional<struct stat> status_of(const std::string& path) {
  struct stat found = {};
  if (::stat(path.c_str(), &found) == 0) return found;
  if (errno == ENOENT) return std::nullopt;
  throw Error(ErrorKind::kIo, "{}: cannot be created: {}", shown_path(path), std::strerror(errno));
}

bool same(const struct stat& a, const struct stat& b) {
  return a.st_dev == b.st_dev && a.st_ino == b.st_ino;
}

// Resolves an input that may be the name of a model; returns it unchanged if that fails.
std::string path_of(const std::string& input) {
  struct stat found = {};
  if (::stat(input.c_str(), &found) == 0) return input;
  try {
    const std::string named = find_named_model(input, model_places());
    return named.empty() ? input : named;
  } catch (const Error& error) {
    if (error.kind() == ErrorKind::kBug) throw;
    return input;  // the reader of the input reports the error
  }
}

bool is_read(const struct stat& output, const std::string& meant) {
  const std::string input = path_of(meant);
  struct stat found = {};
  if (::stat(input.c_str(), &found) != 0) return false;
  if (same(found, output)) return true;
  if (!S_ISDIR(found.st_mode)) return false;
  std::error_code code;
  for (fs::directory_iterator entry(input, code); !code && entry != fs::directory_iterator();
       entry.increment(code))
    if (::stat(entry->path().c_str(), &found) == 0 && same(found, output)) return true;
  return false;
}

// Follows symbolic links; the last one may be dangling.
std::string without_links(const std::string& path) {
  fs::path at = path;
  std::error_code code;
  for (int i = 0; i < kMaxLinks && fs::is_symlink(fs::symlink_status(at, code)); ++i) {
    const fs::path target = fs::read_symlink(at, code);
    if (code) break;
    at = at.parent_path() / target;  // an absolute target replaces the whole path
  }
  return at.string();
}

void check_name(const std::string& path, std::string_view expected) {
  if (path.empty())
    throw Error(ErrorKind::kInput, "the name of the output is empty, expected that of {}",
                expected);
}

void check_folder_of(const std::string& path, const std::string& target) {
  std::string folder = fs::path(target).parent_path().string();
  if (folder.empty()) folder = ".";
  struct stat found = {};
  int code = 0;
  if (::stat(folder.c_str(), &found) != 0)
    code = errno;
  else if (!S_ISDIR(found.st_mode))
    code = ENOTDIR;
  else if (::access(folder.c_str(), W_OK | X_OK) != 0)
    code = errno;
  if (code != 0)
    throw Error(ErrorKind::kIo, "{}: cannot be created in {}: {}", shown_path(path),
                shown_path(folder), std::strerror(code));
}

}  // namespace

std::vector<std::string> inputs_of(const ModelFile& file) {
  std::vector<std::string> paths = {file.path};
  for (const auto& mapping : file.mappings) paths.push_back(mapping->path());
  return paths;
}

std::string file_to_write(const std::string& path, const OutputRules& rules) {
  check_name(path, "a file");
  const auto found = status_of(path);
  if (found && !S_ISREG(found->st_mode))
    throw Error(ErrorKind::kInput, "{}: is {}, expected a regular file or a new name",
                shown_path(path), kind_of_file(found->st_mode));
  if (found && std::ranges::any_of(
                   rules.inputs, [&](const std::string& input) { return is_read(*found, input); }))
    throw Error(ErrorKind::kInput, "{}: is also the input, expected another name",
                shown_path(path));
  if (found && rules.existing == Existing::kRefuse)
    throw Error(ErrorKind::kInput, "{}: exists already, expected a new name (--force replaces it)",
                shown_path(path));
  if (path.back() == '/')
    throw Error(ErrorKind::kInput, "{}: is the name of a folder, expected that of a file",
                shown_path(path));
  std::string target = without_links(path);
  check_folder_of(path, target);
  return target;
}

std::string folder_to_write(const std::string& path) {
  check_name(path, "a new folder");
  std::string name = path;
  while (name.size() > 1 && name.back() == '/') name.pop_back();
  if (const auto found = status_of(name))
    throw Error(ErrorKind::kInput,
                "{}: exists already and is {}, expected the name of a new folder", shown_path(name),
                kind_of_file(found->st_mode));
  std::string target = without_links(name);
  check_folder_of(name, target);
  return target;
}

}  // namespace veery
