// history.h: what was typed before, kept in a file of the user's.
#pragma once
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace veery::cli {

/// At most kMostEntries, oldest first. The file has a line an entry, with \n written as `\n` and a
/// backslash as `\\`; several programs may write to it at once. Only its owner may read it.
class History {
 public:
  static constexpr size_t kMostEntries = 1000;
  static constexpr size_t kMostBytes = size_t{4} << 20;  ///< of the file

  /// $XDG_STATE_HOME/veery/history, else ~/.local/state/veery/history; none: neither variable says
  /// where.
  static std::optional<std::string> default_path();

  /// Keeps entries in memory only.
  History() = default;
  /// Reads the file, or makes it and its folder. Throws kIo, naming it, if that fails.
  explicit History(std::string path);

  const std::vector<std::string>& entries() const { return entries_; }
  /// An entry like the last one is not added. Where the file cannot be written any more it is kept
  /// in memory.
  void add(std::string_view entry);

 private:
  std::string path_;
  std::vector<std::string> entries_;
};

}  // namespace veery::cli
