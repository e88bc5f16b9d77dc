// prefix_folder.h: the files of the prefix cache on disk, within a size.
#pragma once
#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace veery {

/// Creates the folder (mode 0700) if it is not there. Throws kIo or kInput, naming it, where it is
/// no folder, others may write to it, or a file cannot be made in it.
void check_prefix_folder(const std::string& path);

/// Files by name in one folder, which other programs may use at the same time. The least recently
/// used ones go where all of them together exceed the size. A file is written under a temporary
/// name (mode 0600) and renamed: nobody sees half of one. Files are not synchronised with the disk:
/// what a power failure damages is found by its hash and removed. Safe to use from several threads.
class PrefixFolder {
 public:
  /// Throws as check_prefix_folder().
  PrefixFolder(std::string path, uint64_t most_bytes);

  /// Sees what other programs have added and removed since; a file that they replaced is found by
  /// its size when it is read.
  void refresh();
  bool has(const std::string& name) const;
  uint64_t bytes_of(const std::string& name) const;  ///< 0: there is none
  /// Names that begin so.
  std::vector<std::string> names(std::string_view prefix) const;
  /// All of a file, or its first `most` bytes; nothing where it is gone, is no regular file or
  /// cannot be read. The file counts as used if all of it is read.
  std::optional<std::vector<std::byte>> read(const std::string& name, uint64_t most = UINT64_MAX);
  /// False: it has no room, or the disk is full or fails; nothing is left of it then.
  bool write(const std::string& name, std::span<const std::byte> bytes);
  /// The file counts as used.
  void touch(const std::string& name);
  void remove(const std::string& name);
  uint64_t bytes() const;  ///< of all files

 private:
  struct File {
    uint64_t bytes = 0;
    int64_t used = 0;  ///< nanoseconds since 1970
  };
  std::string path_of(const std::string& name) const { return path_ + "/" + name; }
  bool make_room(uint64_t bytes);
  void forget(std::map<std::string, File>::iterator file);

  std::string path_;
  uint64_t most_bytes_;
  mutable std::mutex mutex_;
  std::map<std::string, File> files_;
  uint64_t bytes_ = 0;
  int64_t seen_ = -1;  ///< the folder's time of modification when it was last read
};

}  // namespace veery
