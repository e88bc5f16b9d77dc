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
#include <limits>
#include <memory>

#include "base/clock.h"
#include "base/error.h"
#include "base/untrusted_file.h"

namespace veery {
namespace {

constexpr std::string_view kExtension = ".prefix", kTemporary = ".prefix-part";
constexpr int64_t kSecond = 1'000'000'000;
constexpr int64_t kAbandoned = 600 * kSecond;  // age of a temporary file whose writer is gone
constexpr int64_t kTick = kSecond / 10;        // above the resolution of a folder's times
constexpr double kListAgain = 1;               // seconds after an own change
constexpr double kPauseFactor = 19;            // so that listing takes at most 5% of the time

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

// Gets the status of a path, without following a link.
bool status_of(const std::string& path, struct stat& status) {
  return ::lstat(path.c_str(), &status) == 0;
}

std::string without_end_slashes(std::string path) {
  while (path.size() > 1 && path.ends_with('/')) path.pop_back();
  return path;
}

std::string file_name(std::string_view name) { return std::string(name) + std::string(kExtension); }

std::string without_extension(std::string_view file) {
  return std::string(file.substr(0, file.size() - kExtension.size()));
}

// Returns nothing if the file is not a regular one of `known` bytes.
std::optional<std::vector<std::byte>> read_bytes(const std::string& path, uint64_t known,
                                                 uint64_t count) {
  // Opening a named pipe without O_NONBLOCK would wait for a writer.
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
  if (fd < 0) return {};
  const Descriptor file(fd);
  struct stat status {};
  if (::fstat(fd, &status) != 0 || !S_ISREG(status.st_mode) ||
      static_cast<uint64_t>(status.st_size) != known)
    return {};
  std::vector<std::byte> bytes(count);
  for (size_t at = 0; at < bytes.size();) {
    const ssize_t got = ::pread(fd, bytes.data() + at, bytes.size() - at, static_cast<off_t>(at));
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return {};
    at += static_cast<size_t>(got);
  }
  return bytes;
}

}  // namespace

void check_prefix_folder(const std::string& given) {
  const std::string path = without_end_slashes(given), shown = shown_path(path);
  std::error_code code;
  const std::filesystem::path parent = std::filesystem::absolute(path, code).parent_path();
  std::filesystem::create_directories(parent, code);
  if (::mkdir(path.c_str(), 0700) != 0 && errno != EEXIST)
    throw Error(ErrorKind::kIo, "{}: cannot create the folder of the prefix cache: {}", shown,
                std::strerror(errno));
  struct stat status {};
  if (::stat(path.c_str(), &status) != 0 || !S_ISDIR(status.st_mode))
    throw Error(ErrorKind::kInput, "{}: is {}, expected a folder for the prefix cache", shown,
                kind_of_file(status.st_mode));
  if ((status.st_mode & S_IWOTH) != 0)
    throw Error(ErrorKind::kInput,
                "{}: everybody may write to the folder (mode {:o}), expected a folder that only "
                "the server's user can write to",
                shown, status.st_mode & 07777);
  const std::string probe = fmt::format("{}/probe-{}{}", path, ::getpid(), kTemporary);
  const int fd = ::open(probe.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
  if (fd < 0)
    throw Error(ErrorKind::kIo, "{}: cannot create a file in the folder of the prefix cache: {}",
                shown, std::strerror(errno));
  ::close(fd);
  ::unlink(probe.c_str());
}

PrefixFolder::PrefixFolder(std::string path, uint64_t most_bytes)
    : path_(without_end_slashes(std::move(path))), most_bytes_(most_bytes) {
  check_prefix_folder(path_);
  const std::lock_guard lock(mutex_);
  list_folder();
  make_room(0);
}

int64_t PrefixFolder::modified() const {
  struct stat folder {};
  return ::stat(path_.c_str(), &folder) == 0 ? nanoseconds(folder.st_mtim) : -1;
}

// Makes a change so that refresh() does not mistake it for a change of another program. Changes
// within one tick of the file system's clock have the same time, so another program's change
// shortly after this one may go unnoticed. Therefore the folder is listed again a little later.
bool PrefixFolder::change_folder(const std::function<bool()>& change) {
  const bool current = modified() == seen_;
  const bool done = change();
  if (current) {
    seen_ = modified();
    uncertain_at_ = std::min(uncertain_at_, seconds_now() + kListAgain);
  }
  return done;
}

void PrefixFolder::refresh() {
  const std::lock_guard lock(mutex_);
  const double time = seconds_now();
  if (time < next_listing_ || (time < uncertain_at_ && modified() == seen_)) return;
  list_folder();
}

void PrefixFolder::list_folder() {
  const double start = seconds_now();
  const int64_t changed = modified();
  const std::unique_ptr<DIR, int (*)(DIR*)> list(::opendir(path_.c_str()), ::closedir);
  if (!list) return;
  std::set<std::string, std::less<>> found;
  while (const dirent* entry = ::readdir(list.get())) {
    const std::string name = entry->d_name;
    const bool temporary = name.ends_with(kTemporary);
    if (!temporary && !name.ends_with(kExtension)) continue;
    if (files_.contains(name)) {
      found.insert(name);
      continue;
    }
    struct stat status {};
    if (!status_of(path_of(name), status) || !S_ISREG(status.st_mode)) continue;
    const int64_t used = nanoseconds(status.st_mtim);
    if (!temporary) {
      insert(name, {static_cast<uint64_t>(status.st_size), used});
      found.insert(name);
    } else if (now() - used > kAbandoned) {
      ::unlink(path_of(name).c_str());
    }
  }
  for (auto file = files_.begin(); file != files_.end();)
    file = found.contains(file->first) ? std::next(file) : erase(file);
  seen_ = changed;
  const double end = seconds_now();
  const bool recent = now() - changed < kTick;
  uncertain_at_ =
      recent ? end + static_cast<double>(kTick) / kSecond : std::numeric_limits<double>::infinity();
  next_listing_ = end + kPauseFactor * (end - start);
}

std::vector<PrefixFolder::Change> PrefixFolder::take_changes() {
  const std::lock_guard lock(mutex_);
  return std::exchange(changes_, {});
}

bool PrefixFolder::has(const std::string& name) const {
  const std::lock_guard lock(mutex_);
  return files_.contains(file_name(name));
}

uint64_t PrefixFolder::bytes_of(const std::string& name) const {
  const std::lock_guard lock(mutex_);
  const auto found = files_.find(file_name(name));
  return found == files_.end() ? 0 : found->second.bytes;
}

std::optional<std::vector<std::byte>> PrefixFolder::read_head(const std::string& name,
                                                              uint64_t most) const {
  const uint64_t known = bytes_of(name);
  return read_bytes(path_of(file_name(name)), known, std::min(known, most));
}

std::optional<std::vector<std::byte>> PrefixFolder::read(const std::string& name, uint64_t bytes) {
  if (bytes_of(name) != bytes) return {};
  auto read = read_bytes(path_of(file_name(name)), bytes, bytes);
  if (read) touch(name);
  return read;
}

// The modification time of the file tells other programs that it was used.
void PrefixFolder::touch(const std::string& name) {
  const std::string file = file_name(name);
  const std::lock_guard lock(mutex_);
  const auto own = files_.find(file);
  if (own == files_.end()) return;
  set_used(own, now());
  ::utimensat(AT_FDCWD, path_of(file).c_str(), nullptr, AT_SYMLINK_NOFOLLOW);
}

bool PrefixFolder::write(const std::string& name, std::span<const std::byte> bytes) {
  static std::atomic<uint64_t> count{0};
  const std::string file = file_name(name), path = path_of(file);
  const std::string temporary =
      path_of(fmt::format("{}-{}-{}{}", name, ::getpid(), count++, kTemporary));
  int fd = -1;
  {
    const std::lock_guard lock(mutex_);
    if (!make_room(bytes.size())) return false;
    constexpr int kFlags = O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW;
    if (!change_folder([&] { return (fd = ::open(temporary.c_str(), kFlags, 0600)) >= 0; }))
      return false;
  }
  bool right = write_all(fd, bytes);
  right = ::close(fd) == 0 && right;
  const std::lock_guard lock(mutex_);
  return change_folder([&] {
    if (!right || ::rename(temporary.c_str(), path.c_str()) != 0) {
      ::unlink(temporary.c_str());
      return false;
    }
    insert(file, {bytes.size(), now()});
    return true;
  });
}

void PrefixFolder::remove(const std::string& name) {
  const std::lock_guard lock(mutex_);
  if (const auto own = files_.find(file_name(name)); own != files_.end()) unlink_file(own);
}

// Makes room for `bytes` more bytes. Returns false if they exceed the limit alone.
bool PrefixFolder::make_room(uint64_t bytes) {
  if (!fits(bytes)) return false;
  while (bytes_ + bytes > most_bytes_ && !by_use_.empty())
    unlink_file(files_.find(std::string(by_use_.begin()->second)));
  return true;
}

void PrefixFolder::insert(const std::string& file, const File& entry) {
  changes_.push_back({without_extension(file), /*added=*/true});
  if (const auto known = files_.find(file); known != files_.end()) {
    bytes_ += entry.bytes - known->second.bytes;
    known->second.bytes = entry.bytes;
    return set_used(known, entry.used);
  }
  const auto own = files_.emplace(file, entry).first;
  try {
    by_use_.insert({entry.used, own->first});
  } catch (...) {
    files_.erase(own);
    throw;
  }
  bytes_ += entry.bytes;
}

void PrefixFolder::set_used(Files::iterator file, int64_t used) {
  auto node = by_use_.extract({file->second.used, file->first});
  file->second.used = node.value().first = used;
  by_use_.insert(std::move(node));
}

PrefixFolder::Files::iterator PrefixFolder::erase(Files::iterator file) {
  changes_.push_back({without_extension(file->first), /*added=*/false});
  by_use_.erase({file->second.used, file->first});
  bytes_ -= file->second.bytes;
  return files_.erase(file);
}

void PrefixFolder::unlink_file(Files::iterator file) {
  change_folder([&] { return ::unlink(path_of(file->first).c_str()) == 0; });
  erase(file);
}

}  // namespace veery
