// pending_folder.h: a folder that exists under its own name only once it is whole.
#pragma once
#include <string>
#include <string_view>

#include "file/output/pending_outputs.h"

namespace veery {

/// A new folder under a temporary name beside `path`; commit() renames it. Without commit() nothing
/// is left, nor after discard_pending_outputs(). Symbolic links are followed, also to nothing.
class PendingFolder {
 public:
  /// Throws kInput if there is something under that name, kIo.
  explicit PendingFolder(const std::string& path);

  /// Where a file of the folder is to be written until commit().
  std::string file(const std::string& name) const { return output_.temporary() + "/" + name; }
  /// A whole small file; `name` may lie in a subfolder, which is made. Throws kIo.
  void write(const std::string& name, std::string_view text) const;
  /// Throws kInput if something came under the name meanwhile, kIo.
  void commit();

 private:
  std::string path_;
  PendingOutput output_;
};

}  // namespace veery
