#include "schedule/caches/prefix_folder.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <ctime>
#include <filesystem>
#include <memory>

#include "base/error.h"
#include "base/untrusted_file.h"

namespace veery {
namespace {

constexpr std::string_view kExtension = ".prefix", kTemporary = ".prefix-part";
constexpr int64_t kSecond = 1'000'000'000, kAbandoned = 600 * kSecond;

int64_t nanoseconds(const timespec& time) { return time.tv_sec * kSecond + time.tv_nsec; }

int64_t now() {
  timespec time{};
  clock_gettime(CLOCK_REALTIME, &time);
  return nanoseconds(time);
}

bool write_all(int fd, std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t written = ::write(fd, bytes.data(), std::min<size_t>(bytes.size(), 1 << 30));
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return false;
    bytes = bytes.subspan(static_cast<size_t>(written));
  }
  return true;
}

// Of a folder or a file that is not followed if it is a link.
bool look_at(const std::string& path, struct stat& status) {
  return ::lstat(path.c_str(), &status) == 0;
}

}  // namespace

void check_prefix_folder(const std::string& path) {
  const std::string shown = shown_path(path);
  std::error_code code;
  const std::filesystem::path parent = std::filesystem::absolute(path, code).parent_path();
  std::filesystem::create_directories(parent, code);
  if (::mkdir(path.c_str(), 0700) != 0 && errno != EEXIST)
    throw Error(ErrorKind::kIo, "{}: the folder of the prefix cache cannot be made: {}", shown,
                std::strerror(errno));
  struct stat status {};
  if (::stat(path.c_str(), &status) != 0 || !S_ISDIR(status.st_mode))
    throw Error(ErrorKind::kInput, "{}: is {}, expected a folder for the prefix cache", shown,
                kind_of_file(status.st_mode));
  if ((status.st_mode & S_IWOTH) != 0)
    throw Error(ErrorKind::kInput,
                "{}: everybody may write to the folder (mode {:o}), expected one of the server's "
                "user alone",
                shown, status.st_mode & 07777);
  const std::string probe = fmt::format("{}/probe-{}{}", path, ::getpid(), kTemporary);
  const int fd = ::open(probe.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
  if (fd < 0)
    throw Error(ErrorKind::kIo, "{}: the prefix cache cannot be written to: {}", shown,
                std::strerror(errno));
  ::close(fd);
  ::unlink(probe.c_str());
}

PrefixFolder::PrefixFolder(std::string path, uint64_t most_bytes)
    : path_(std::move(path)), most_bytes_(most_bytes) {
  check_prefix_folder(path_);
  refresh();
  const std::lock_guard lock(mutex_);
  make_room(0);
}

void PrefixFolder::refresh() {
  struct stat folder {};
  if (::stat(path_.c_str(), &folder) != 0) return;
  const std::lock_guard lock(mutex_);
  const int64_t modified = nanoseconds(folder.st_mtim);
  if (modified == seen_) return;
  // Times are coarse: what comes in the same moment would not be seen later.
  seen_ = now() - modified > kSecond / 10 ? modified : -1;
  const std::unique_ptr<DIR, int (*)(DIR*)> list(::opendir(path_.c_str()), ::closedir);
  if (!list) return;
  std::map<std::string, File> found;
  while (const dirent* entry = ::readdir(list.get())) {
    const std::string name = entry->d_name;
    const bool part = name.ends_with(kTemporary);
    if (!part && !name.ends_with(kExtension)) continue;
    if (const auto known = files_.find(name); known != files_.end()) {
      found.insert(*known);
      continue;
    }
    struct stat status {};
    if (!look_at(path_of(name), status) || !S_ISREG(status.st_mode)) continue;
    const int64_t used = nanoseconds(status.st_mtim);
    if (!part)
      found[name] = {static_cast<uint64_t>(status.st_size), used};
    else if (now() - used > kAbandoned)
      ::unlink(path_of(name).c_str());
  }
  files_ = std::move(found);
  bytes_ = 0;
  for (const auto& [name, file] : files_) bytes_ += file.bytes;
}

bool PrefixFolder::has(const std::string& name) const {
  const std::lock_guard lock(mutex_);
  return files_.contains(name + std::string(kExtension));
}

uint64_t PrefixFolder::bytes_of(const std::string& name) const {
  const std::lock_guard lock(mutex_);
  const auto found = files_.find(name + std::string(kExtension));
  return found == files_.end() ? 0 : found->second.bytes;
}

std::vector<std::string> PrefixFolder::names(std::string_view prefix) const {
  const std::lock_guard lock(mutex_);
  std::vector<std::string> names;
  for (auto file = files_.lower_bound(std::string(prefix));
       file != files_.end() && file->first.starts_with(prefix); ++file)
    names.push_back(file->first.substr(0, file->first.size() - kExtension.size()));
  return names;
}

std::optional<std::vector<std::byte>> PrefixFolder::read(const std::string& name, uint64_t most) {
  const std::string path = path_of(name + std::string(kExtension));
  // A named pipe would wait for who writes to it.
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
  if (fd < 0) return {};
  const Descriptor file(fd);
  struct stat status {};
  const uint64_t known = bytes_of(name);
  if (::fstat(fd, &status) != 0 || !S_ISREG(status.st_mode) ||
      static_cast<uint64_t>(status.st_size) != known)
    return {};
  std::vector<std::byte> bytes(std::min(known, most));
  for (size_t at = 0; at < bytes.size();) {
    const ssize_t got = ::pread(fd, bytes.data() + at, bytes.size() - at, static_cast<off_t>(at));
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return {};
    at += static_cast<size_t>(got);
  }
  if (bytes.size() < known) return bytes;
  touch(name);
  return bytes;
}

// Other programs see it by the time of modification.
void PrefixFolder::touch(const std::string& name) {
  const std::string file = name + std::string(kExtension);
  const std::lock_guard lock(mutex_);
  const auto own = files_.find(file);
  if (own == files_.end()) return;
  own->second.used = now();
  ::utimensat(AT_FDCWD, path_of(file).c_str(), nullptr, AT_SYMLINK_NOFOLLOW);
}

bool PrefixFolder::write(const std::string& name, std::span<const std::byte> bytes) {
  static std::atomic<uint64_t> count{0};
  refresh();
  {
    const std::lock_guard lock(mutex_);
    if (!make_room(bytes.size())) return false;
  }
  const std::string temporary =
      path_of(fmt::format("{}-{}-{}{}", name, ::getpid(), count++, kTemporary));
  const int fd =
      ::open(temporary.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
  if (fd < 0) return false;
  bool right = write_all(fd, bytes);
  right = ::close(fd) == 0 && right;
  const std::string file = name + std::string(kExtension);
  right = right && ::rename(temporary.c_str(), path_of(file).c_str()) == 0;
  if (!right) {
    ::unlink(temporary.c_str());
    return false;
  }
  const std::lock_guard lock(mutex_);
  File& own = files_[file];
  bytes_ += bytes.size() - own.bytes;
  own = {bytes.size(), now()};
  return true;
}

void PrefixFolder::remove(const std::string& name) {
  const std::lock_guard lock(mutex_);
  if (const auto own = files_.find(name + std::string(kExtension)); own != files_.end())
    forget(own);
}

void PrefixFolder::forget(std::map<std::string, File>::iterator file) {
  ::unlink(path_of(file->first).c_str());
  bytes_ -= file->second.bytes;
  files_.erase(file);
}

// For so many bytes more. False: they exceed the size alone.
bool PrefixFolder::make_room(uint64_t bytes) {
  if (bytes > most_bytes_) return false;
  while (bytes_ + bytes > most_bytes_ && !files_.empty())
    forget(std::ranges::min_element(files_, {}, [](const auto& file) { return file.second.used; }));
  return true;
}

uint64_t PrefixFolder::bytes() const {
  const std::lock_guard lock(mutex_);
  return bytes_;
}

}  // namespace veery
