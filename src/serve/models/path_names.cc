#include "serve/models/path_names.h"

#include <filesystem>
#include <system_error>

#include "base/untrusted_file.h"

namespace veery::serve {
namespace {

namespace fs = std::filesystem;

// Whether `text` goes on after a path as a message does: with the end, a file in it or a mark.
bool ends_path(std::string_view rest, bool has_slash) {
  if (rest.empty()) return has_slash;
  return std::string_view(has_slash ? ":/'\"`, ;)\n" : ":/").find(rest.front()) !=
         std::string_view::npos;
}

bool begins_path(std::string_view before) {
  return before.empty() ||
         std::string_view(" '\"`(\n=").find(before.back()) != std::string_view::npos;
}

}  // namespace

void PathNames::add(const std::string& path, const std::string& name) {
  if (path.empty()) return;
  std::error_code code;
  const auto insert = [&](fs::path spelling) {
    if (!spelling.has_filename()) spelling = spelling.parent_path();
    // How messages show long paths and those with control characters.
    for (const std::string& shown : {spelling.string(), shown_path(spelling.string())})
      names_.emplace(shown, name);
    if (!spelling.is_absolute()) return;
    // Of "/home/user/models/x" those of the user too; "/home" alone tells nothing.
    for (fs::path folder = spelling.parent_path(); folder != spelling.root_path();) {
      names_.emplace((folder / "").string(), "");
      names_.emplace(shown_path((folder / "").string()), "");
      folder = folder.parent_path();
      if (folder.parent_path() == spelling.root_path()) break;
    }
  };
  insert(path);
  insert(fs::absolute(path, code).lexically_normal());
  if (const fs::path real = fs::weakly_canonical(path, code); !code) insert(real);
}

std::string PathNames::without_paths(std::string_view text) const {
  std::string out;
  while (!text.empty()) {
    const auto matches = [&](const auto& entry) {
      const auto& [path, name] = entry;
      if (!text.starts_with(path)) return false;
      if (path.ends_with('/')) return true;  // a folder
      return ends_path(text.substr(path.size()), path.find('/') != std::string::npos);
    };
    const bool begins = begins_path(out);
    auto found = names_.end();
    if (begins)
      for (auto entry = names_.begin(); entry != names_.end() && found == names_.end(); ++entry)
        if (matches(*entry)) found = entry;
    if (found == names_.end()) {
      out += text.front();
      text.remove_prefix(1);
    } else {
      out += found->second;
      text.remove_prefix(found->first.size());
    }
  }
  return out;
}

}  // namespace veery::serve
