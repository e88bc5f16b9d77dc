// path_names.h: keeps the places of files out of what clients are told.
#pragma once
#include <map>
#include <string>
#include <string_view>

namespace veery::serve {

/// Safe to use from several threads, but for add(), which comes first.
class PathNames {
 public:
  /// Texts for clients have `name` in place of `path`, in any of its spellings (relative, absolute,
  /// without symbolic links), and lose the folders that it is in.
  void add(const std::string& path, const std::string& name);
  std::string without_paths(std::string_view text) const;

 private:
  struct Longer {
    bool operator()(const std::string& a, const std::string& b) const {
      return a.size() != b.size() ? a.size() > b.size() : a < b;
    }
  };
  std::map<std::string, std::string, Longer> names_;  // a path, or a folder with its last slash
};

}  // namespace veery::serve
