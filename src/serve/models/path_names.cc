#include "serve/models/path_names.h"

#include <filesystem>
#include <system_error>

#include "base/untrusted_file.h"

namespace veery::serve {
namespace {

namespace fs = std::filesystem;

// Whether a path can end before `rest`: at the end of the message, a slash or punctuation.
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
    // shown_path(): the form of long paths and of control characters in messages.
    for (const std::string& shown : {spelling.string(), shown_path(spelling.string())})
      names_.emplace(shown, name);
    if (!spelling.is_absolute()) return;
    // The folders of "/home/user/models/x" down to "/home/user". A top folder like "/home" tells
    // nothing, and one like "/models" may be the path of an endpoint.
    for (fs::path folder = spelling.parent_path();
         folder != spelling.root_path() && folder.parent_path() != spelling.root_path();
         folder = folder.parent_path()) {
      names_.emplace((folder / "").string(), "");
      names_.emplace(shown_path((folder / "").string()), "");
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
