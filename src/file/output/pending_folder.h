// pending_folder.h: a folder that gets its final name only after it is complete.
#pragma once
#include <string>
#include <string_view>

#include "file/output/pending_outputs.h"

namespace veery {

/// A new folder under a temporary name next to `path`; commit() renames it. Without commit(), or
/// after discard_pending_outputs(), it is removed. Symbolic links are followed, even dangling ones.
class PendingFolder {
 public:
  /// Throws kInput if `path` exists, kIo.
  explicit PendingFolder(const std::string& path);

  /// Returns the path under which to write a file of the folder before commit().
  std::string file(const std::string& name) const { return output_.temporary() + "/" + name; }
  /// Writes a small file; `name` may contain a subfolder, which is created. Throws kIo.
  void write(const std::string& name, std::string_view text) const;
  /// Renames the folder. Throws kInput if `path` was created in the meantime, kIo.
  void commit();

 private:
  std::string path_;
  PendingOutput output_;
};

}  // namespace veery
