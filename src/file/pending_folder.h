// pending_folder.h: a folder that exists under its own name only once it is whole.
#pragma once
#include <string>
#include <string_view>

namespace veery {

/// A new folder under a temporary name beside `path`; commit() renames it. Without commit() nothing
/// is left.
class PendingFolder {
 public:
  /// Throws kInput if there is something under that name, kIo.
  explicit PendingFolder(const std::string& path);
  PendingFolder(const PendingFolder&) = delete;
  PendingFolder& operator=(const PendingFolder&) = delete;
  ~PendingFolder();

  /// Where a file of the folder is to be written until commit().
  std::string file(const std::string& name) const { return temporary_ + "/" + name; }
  /// A whole small file. Throws kIo.
  void write(const std::string& name, std::string_view text) const;
  /// Throws kInput if something came under the name meanwhile, kIo.
  void commit();

 private:
  void check_free() const;

  std::string path_;
  std::string temporary_;
};

}  // namespace veery
