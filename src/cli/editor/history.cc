#include "cli/editor/history.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <span>
#include <utility>

#include "base/error.h"
#include "base/utf8.h"

namespace veery::cli {
namespace {

std::string to_line(std::string_view entry) {
  std::string line;
  for (const char c : entry) {
    if (c == '\n')
      line += "\\n";
    else if (c == '\\')
      line += "\\\\";
    else
      line += c;
  }
  return line + '\n';
}

std::string to_entry(std::string_view line) {
  std::string entry;
  for (size_t i = 0; i < line.size(); ++i) {
    if (line[i] == '\\' && i + 1 < line.size())
      entry += line[++i] == 'n' ? '\n' : line[i];
    else
      entry += line[i];
  }
  return valid_utf8(entry);
}

[[noreturn]] void fail(const char* what, const std::string& path) {
  throw Error(ErrorKind::kIo, "cannot {} {}: {}", what, path, std::strerror(errno));
}

/// An open file with an exclusive lock (flock), for which other instances of veery wait.
class LockedFile {
 public:
  explicit LockedFile(std::string path) : path_(std::move(path)) {
    do {
      reopen();
      // On file systems without locks the file is used without one.
      while (::flock(descriptor_, LOCK_EX) != 0 && errno == EINTR) {
      }
    } while (was_replaced());
  }
  LockedFile(const LockedFile&) = delete;
  LockedFile& operator=(const LockedFile&) = delete;
  ~LockedFile() { close(); }

  size_t size() const {
    struct stat status {};
    if (::fstat(descriptor_, &status) != 0) fail("read", path_);
    return static_cast<size_t>(status.st_size);
  }

  /// Returns the last `most` bytes.
  std::string tail(size_t most) const {
    const size_t size = this->size();
    std::string text(std::min(size, most), '\0');
    size_t done = 0;
    while (done < text.size()) {
      const ssize_t count = ::pread(descriptor_, text.data() + done, text.size() - done,
                                    static_cast<off_t>(size - text.size() + done));
      if (count < 0 && errno == EINTR) continue;
      if (count < 0) fail("read", path_);
      if (count == 0) break;
      done += static_cast<size_t>(count);
    }
    text.resize(done);
    return text;
  }

  /// Appends a line. The last line of the file may lack its end if a program was killed.
  void append(std::string line) {
    const std::string last = tail(1);
    if (!last.empty() && last != "\n") line.insert(0, 1, '\n');
    write(descriptor_, line);
  }

  void replace(std::string_view text) {
    // Replaces the target of a symbolic link, not the link.
    const std::string target = real_path();
    const std::string beside = target + ".new";
    const int out =
        ::open(beside.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (out < 0) fail("write", beside);
    try {
      write(out, text);
    } catch (...) {
      ::close(out);
      ::unlink(beside.c_str());
      throw;
    }
    ::close(out);
    if (std::rename(beside.c_str(), target.c_str()) != 0) fail("write", target);
  }

 private:
  void close() {
    if (descriptor_ >= 0) ::close(std::exchange(descriptor_, -1));
  }

  // O_NONBLOCK: opening a FIFO of that name must not block.
  void reopen() {
    close();
    descriptor_ = ::open(path_.c_str(), O_RDWR | O_APPEND | O_CREAT | O_CLOEXEC | O_NONBLOCK, 0600);
    if (descriptor_ < 0) fail("open", path_);
    struct stat status {};
    if (::fstat(descriptor_, &status) != 0) fail("open", path_);
    if (!S_ISREG(status.st_mode)) throw Error(ErrorKind::kIo, "{} is not a regular file", path_);
    if ((status.st_mode & 0077U) != 0) ::fchmod(descriptor_, 0600);
  }

  bool was_replaced() const {
    struct stat open {
    }, named{};
    return ::fstat(descriptor_, &open) == 0 && ::stat(path_.c_str(), &named) == 0 &&
           (open.st_ino != named.st_ino || open.st_dev != named.st_dev);
  }

  std::string real_path() const {
    char* real = ::realpath(path_.c_str(), nullptr);
    if (real == nullptr) return path_;
    std::string text = real;
    std::free(real);
    return text;
  }

  void write(int descriptor, std::string_view text) const {
    while (!text.empty()) {
      const ssize_t count = ::write(descriptor, text.data(), text.size());
      if (count < 0 && errno != EINTR) fail("write", path_);
      if (count > 0) text.remove_prefix(static_cast<size_t>(count));
    }
  }

  std::string path_;
  int descriptor_ = -1;
};

std::vector<std::string_view> lines_of(std::string_view text) {
  std::vector<std::string_view> lines;
  while (!text.empty()) {
    const size_t end = std::min(text.find('\n'), text.size());
    if (end > 0) lines.push_back(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return lines;
}

void make_folders(const std::string& path) {
  for (size_t end = path.find('/', 1); end != std::string::npos; end = path.find('/', end + 1)) {
    const std::string folder = path.substr(0, end);
    if (::mkdir(folder.c_str(), 0700) != 0 && errno != EEXIST && errno != EISDIR) {
      struct stat status {};
      const int error = errno;
      const bool there = ::stat(folder.c_str(), &status) == 0;  // read-only above it, for example
      errno = error;
      if (!there) fail("create the folder", folder);
    }
  }
}

std::vector<std::string> read_and_trim(LockedFile& file) {
  std::string text = file.tail(History::kMaxBytes);
  // A truncated first line is dropped.
  if (file.size() > text.size()) text.erase(0, std::min(text.find('\n'), text.size()));
  const auto all = lines_of(text);
  const auto kept =
      std::span(all).last(std::min(all.size(), static_cast<size_t>(History::kMaxEntries)));
  std::vector<std::string> entries;
  for (const std::string_view line : kept) entries.push_back(to_entry(line));
  if (kept.size() == all.size() && file.size() <= History::kMaxBytes) return entries;
  std::string rest;
  for (const std::string_view line : kept) rest.append(line) += '\n';
  file.replace(rest);
  return entries;
}

}  // namespace

std::optional<std::string> History::default_path() {
  const char* state = std::getenv("XDG_STATE_HOME");
  // A relative path is to be ignored (XDG Base Directory Specification).
  if (state != nullptr && state[0] == '/') return std::string(state) + "/veery/history";
  const char* home = std::getenv("HOME");
  if (home == nullptr || home[0] == '\0') return std::nullopt;
  return std::string(home) + "/.local/state/veery/history";
}

History::History(std::string path) : path_(std::move(path)) {
  make_folders(path_);
  LockedFile file(path_);
  entries_ = read_and_trim(file);
}

void History::add(std::string_view entry) {
  if (entry.empty() || (!entries_.empty() && entries_.back() == entry)) return;
  entries_.emplace_back(entry);
  if (entries_.size() > kMaxEntries) entries_.erase(entries_.begin());
  const std::string line = to_line(entry);
  if (path_.empty() || line.size() > kMaxBytes) return;
  try {
    LockedFile file(path_);
    file.append(line);
    read_and_trim(file);
  } catch (const Error& error) {
    if (error.kind() == ErrorKind::kBug) throw;
    path_.clear();
  }
}

}  // namespace veery::cli
