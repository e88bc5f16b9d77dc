// prefix_folder.h: the files of the prefix cache on disk, within a size limit.
#pragma once
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace veery {

/// Creates the folder with mode 0700 if it does not exist, and missing parents with the default
/// mode. Throws kIo or kInput, naming the folder, if the path is not a folder, if everybody may
/// write to it, or if no file can be created in it.
void check_prefix_folder(const std::string& path);

/// Named files in one folder that other programs may use at the same time. Evicts the least
/// recently used files when the total size exceeds the limit. Writes a file under a temporary name
/// (mode 0600) and renames it, so that nobody sees half of it. Files are not synchronised with the
/// disk: the reader detects the damage of a power failure by the hash in the file.
///
/// The index of the folder is kept in memory. Own changes update it directly; refresh() lists the
/// folder only after another program has changed it, and spends at most 5% of the time on listing.
/// Safe to use from several threads.
class PrefixFolder {
 public:
  /// Throws as check_prefix_folder().
  PrefixFolder(std::string path, uint64_t most_bytes);

  /// Adds files of other programs to the index and drops those that they have removed. A file that
  /// they replaced by one of another size is detected when it is read.
  void refresh();

  struct Change {
    std::string name;
    bool added = false;  ///< or replaced; false: removed
  };
  /// Returns the changes of the index since the last call, in order. The first call reports every
  /// file as added.
  std::vector<Change> take_changes();

  bool has(const std::string& name) const;
  uint64_t bytes_of(const std::string& name) const;  ///< 0 if there is no such file
  /// Whether a file of this size is within the limit.
  bool fits(uint64_t bytes) const { return bytes <= most_bytes_; }
  /// Returns the first `most` bytes of a file, or all of a smaller one. Returns nothing if it does
  /// not exist, is not a regular file, has another size than in the index or cannot be read.
  std::optional<std::vector<std::byte>> read_head(const std::string& name, uint64_t most) const;
  /// Returns a file of exactly `bytes` bytes and marks it as used. Returns nothing as read_head()
  /// does, and for a file of another size; allocates nothing for the latter.
  std::optional<std::vector<std::byte>> read(const std::string& name, uint64_t bytes);
  /// Returns false, leaving no file, if the file exceeds the size limit or the disk fails.
  bool write(const std::string& name, std::span<const std::byte> bytes);
  /// Marks the file as used.
  void touch(const std::string& name);
  void remove(const std::string& name);

 private:
  struct File {
    uint64_t bytes = 0;
    int64_t used = 0;  ///< nanoseconds since 1970
  };
  using Files = std::map<std::string, File>;

  std::string path_of(const std::string& name) const { return path_ + "/" + name; }
  int64_t modified() const;
  bool change_folder(const std::function<bool()>& change);
  void list_folder();
  bool make_room(uint64_t bytes);
  void insert(const std::string& file, const File& entry);
  void set_used(Files::iterator file, int64_t used);
  Files::iterator erase(Files::iterator file);
  void unlink_file(Files::iterator file);

  std::string path_;  // without a slash at its end
  uint64_t most_bytes_;
  mutable std::mutex mutex_;
  Files files_;
  std::set<std::pair<int64_t, std::string_view>> by_use_;  // File::used and the key in files_
  uint64_t bytes_ = 0;                                     // of all files
  std::vector<Change> changes_;
  int64_t seen_ = -1;        // the folder's modification time that the index corresponds to
  double uncertain_at_ = 0;  // seconds_now() from which seen_ no longer proves that it is current
  double next_listing_ = 0;  // seconds_now() before which the folder is not listed again
};

}  // namespace veery
