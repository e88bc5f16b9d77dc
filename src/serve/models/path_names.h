// path_names.h: replaces the paths of files in messages to clients by the ids of models.
#pragma once
#include <map>
#include <string>
#include <string_view>

namespace veery::serve {

/// Safe to use from several threads, except add(), which must come first.
class PathNames {
 public:
  /// Replaces `path` by `name` in later messages, in every spelling (relative, absolute, without
  /// symbolic links), and removes the folders that contain it, except a folder directly below the
  /// root.
  void add(const std::string& path, const std::string& name);
  std::string without_paths(std::string_view text) const;

 private:
  struct Longer {
    bool operator()(const std::string& a, const std::string& b) const {
      return a.size() != b.size() ? a.size() > b.size() : a < b;
    }
  };
  std::map<std::string, std::string, Longer> names_;  // by path; a folder has a slash at its end
};

}  // namespace veery::serve
