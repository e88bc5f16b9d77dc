// history.h: the earlier entries of all chats, in a file of the user.
#pragma once
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace veery::cli {

/// Holds up to kMaxEntries entries, oldest first. The file has one line per entry, with a line
/// break written as `\n` and a backslash as `\\`. Several programs may write to it at once. Only
/// its owner may read it.
class History {
 public:
  static constexpr size_t kMaxEntries = 1000;
  static constexpr size_t kMaxBytes = size_t{4} << 20;  ///< of the file

  /// Returns $XDG_STATE_HOME/veery/history, else ~/.local/state/veery/history; nothing if neither
  /// XDG_STATE_HOME nor HOME is set.
  static std::optional<std::string> default_path();

  /// Keeps entries in memory only.
  History() = default;
  /// Reads the file, or creates it and its folder. Throws kIo naming the path.
  explicit History(std::string path);

  const std::vector<std::string>& entries() const { return entries_; }
  /// Adds an entry unless it equals the last one. If the file can no longer be written, entries are
  /// kept in memory only.
  void add(std::string_view entry);

 private:
  std::string path_;
  std::vector<std::string> entries_;
};

}  // namespace veery::cli
