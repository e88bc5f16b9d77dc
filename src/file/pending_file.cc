#include "file/pending_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstring>

#include "base/error.h"

namespace veery {

PendingFile::PendingFile(const std::string& path) : path_(path) {
  static std::atomic<unsigned> counter = 0;
  temporary_ = fmt::format("{}.{}.{}.part", path, ::getpid(), counter++);
  fd_ = ::open(temporary_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
  if (fd_ < 0) fail("cannot be created", 0);
}

PendingFile::~PendingFile() {
  if (fd_ >= 0) ::close(fd_);
  if (!temporary_.empty()) ::unlink(temporary_.c_str());
}

void PendingFile::write(const void* data, size_t size) {
  write_at(position_, data, size);
  position_ += size;
}

void PendingFile::write_at(uint64_t position, const void* data, size_t size) const {
  const char* at = static_cast<const char*>(data);
  while (size > 0) {
    constexpr size_t kLargestWrite = size_t{1} << 30;  // the system may refuse more than 2 GiB
    const ssize_t written =
        ::pwrite(fd_, at, std::min(size, kLargestWrite), static_cast<off_t>(position));
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) fail("cannot be written", position);
    at += written;
    size -= static_cast<size_t>(written);
    position += static_cast<uint64_t>(written);
  }
}

void PendingFile::pad(uint64_t alignment) {
  constexpr char kZeros[4096] = {};
  uint64_t size = round_up(position_, alignment) - position_;
  for (; size > sizeof kZeros; size -= sizeof kZeros) write(kZeros, sizeof kZeros);
  write(kZeros, size);
}

// A full disk may show only here.
void PendingFile::finish() {
  if (fd_ < 0) return;
  if (::fsync(fd_) != 0) fail("cannot be written", position_);
  const int fd = fd_;
  fd_ = -1;
  if (::close(fd) != 0) fail("cannot be written", position_);
}

void PendingFile::commit() {
  finish();
  if (::rename(temporary_.c_str(), path_.c_str()) != 0) fail("cannot be put in place", position_);
  temporary_.clear();
}

void PendingFile::fail(std::string_view what, uint64_t position) const {
  const int code = errno;
  throw Error(ErrorKind::kIo, "{}: {} after {} bytes: {}", path_, what, position,
              std::strerror(code));
}

}  // namespace veery
