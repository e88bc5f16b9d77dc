#include "base/untrusted_file.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>

#include "base/error.h"
#include "base/printable.h"

namespace veery {
namespace {

namespace fs = std::filesystem;

constexpr size_t kLongestPath = 1024;  // in messages
constexpr int kWaitForWriter = 2000;   // milliseconds

[[noreturn]] void refuse(const std::string& path, const char* doing, int code) {
  const bool missing = code == ENOENT || code == ENOTDIR;
  throw Error(missing ? ErrorKind::kNotFound : ErrorKind::kIo, "{}: cannot be {}: {}",
              shown_path(path), doing, std::strerror(code));
}

[[noreturn]] void refuse_kind(const std::string& path, mode_t mode, const char* expected) {
  throw Error(ErrorKind::kIo, "{}: is {}, expected {}", shown_path(path), kind_of_file(mode),
              expected);
}

// Never blocks: neither on the other end of a pipe nor on a device.
Descriptor open_at_once(const std::string& path, const char* expected) {
  Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
  if (file.get() >= 0) return file;
  const int code = errno;
  struct stat info = {};
  if (code == ENXIO && ::stat(path.c_str(), &info) == 0) refuse_kind(path, info.st_mode, expected);
  refuse(path, "opened", code);
}

mode_t mode_of(const Descriptor& file, const std::string& path) {
  struct stat info = {};
  if (::fstat(file.get(), &info) != 0) refuse(path, "read", errno);
  return info.st_mode;
}

bool is_ready_within(int descriptor, int milliseconds) {
  pollfd waiting{descriptor, POLLIN, 0};
  return ::poll(&waiting, 1, milliseconds) != 0;
}

// Returns the mode of the file at `path`, or 0 if there is none.
mode_t mode_at(const std::string& path) {
  struct stat info = {};
  if (::stat(path.c_str(), &info) == 0) return info.st_mode;
  if (errno == ENOENT || errno == ENOTDIR) return 0;
  refuse(path, "accessed", errno);
}

std::string without_mark(std::string text, const std::string& name) {
  constexpr std::string_view kUtf8 = "\xEF\xBB\xBF";
  if (text.starts_with(kUtf8)) text.erase(0, kUtf8.size());
  if (text.starts_with("\xFF\xFE") || text.starts_with("\xFE\xFF"))
    throw Error(ErrorKind::kFormat, "{}: is text in UTF-16, expected UTF-8", shown_path(name));
  return text;
}

}  // namespace

std::string shown_path(const std::string& path) { return printable(path, kLongestPath); }

std::string_view kind_of_file(uint32_t mode) {
  if (S_ISREG(mode)) return "a file";
  if (S_ISDIR(mode)) return "a folder";
  if (S_ISFIFO(mode)) return "a named pipe";
  if (S_ISSOCK(mode)) return "a socket";
  if (S_ISCHR(mode) || S_ISBLK(mode)) return "a device";
  return "not a regular file";
}

void check_size(const std::string& path, uint64_t bytes, const FileKind& kind) {
  if (bytes > kind.most_bytes)
    throw Error(ErrorKind::kLimit, "{}: has {} bytes, expected at most {} of {}", shown_path(path),
                bytes, kind.most_bytes, kind.name);
}

Descriptor::~Descriptor() {
  if (fd_ >= 0) ::close(fd_);
}

Descriptor open_regular(const std::string& path) {
  Descriptor file = open_at_once(path, "a file");
  const mode_t mode = mode_of(file, path);
  if (!S_ISREG(mode)) refuse_kind(path, mode, "a file");
  return file;
}

std::string read_text(const std::string& path, const FileKind& kind) {
  const Descriptor file = open_at_once(path, "a file or a pipe");
  const mode_t mode = mode_of(file, path);
  if (S_ISDIR(mode)) refuse_kind(path, mode, "a file or a pipe");
  const bool silent = S_ISFIFO(mode) && !is_ready_within(file.get(), kWaitForWriter);
  std::string text = read_text(file.get(), path, kind);
  // A named pipe without a writer reads as an empty file.
  if (silent && text.empty())
    throw Error(ErrorKind::kIo, "{}: is a named pipe that no program writes to", shown_path(path));
  return text;
}

std::string read_text(int descriptor, const std::string& name, const FileKind& kind) {
  std::string text;
  std::vector<char> buffer(size_t{1} << 16);
  for (;;) {
    const ssize_t count = ::read(descriptor, buffer.data(), buffer.size());
    if (count == 0) return kind.is_text ? without_mark(std::move(text), name) : text;
    if (count > 0) {
      text.append(buffer.data(), static_cast<size_t>(count));
      if (text.size() > kind.most_bytes)
        throw Error(ErrorKind::kLimit, "{}: has more than {} bytes, the limit of {}",
                    shown_path(name), kind.most_bytes, kind.name);
    } else if (errno == EAGAIN) {
      is_ready_within(descriptor, -1);
    } else if (errno != EINTR) {
      refuse(name, "read", errno);
    }
  }
}

bool path_exists(const std::string& path) { return mode_at(path) != 0; }

bool is_folder(const std::string& path) { return S_ISDIR(mode_at(path)); }

std::vector<std::string> list_folder(const std::string& folder) {
  std::error_code code;
  std::vector<std::string> names;
  fs::directory_iterator entry(folder, code);
  for (; !code && entry != fs::directory_iterator(); entry.increment(code))
    names.push_back(entry->path().filename().string());
  if (code) refuse(folder, "listed", code.value());
  std::ranges::sort(names);
  return names;
}

}  // namespace veery
