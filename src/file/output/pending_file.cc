#include "file/output/pending_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "base/error.h"
#include "base/untrusted_file.h"

namespace veery {

PendingFile::PendingFile(const std::string& path, const OutputRules& rules)
    : path_(path),
      replace_(rules.existing == Existing::kReplace),
      replaced_(rules.replaced),
      output_(file_to_write(path, rules),
              [this](const std::string& temporary) { create(temporary); }) {}

PendingFile::~PendingFile() {
  if (fd_ >= 0) ::close(fd_);
}

void PendingFile::create(const std::string& temporary) {
  fd_ = ::open(temporary.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
  if (fd_ < 0) fail("cannot be created", 0, errno);
  struct stat old = {};
  if (::stat(path_.c_str(), &old) == 0)
    ::fchmod(fd_, old.st_mode & 0777);
  else
    replaced_ = nullptr;
}

void PendingFile::write(const void* data, size_t size) {
  write_at(position_, data, size);
  position_ += size;
}

void PendingFile::write_at(uint64_t position, const void* data, size_t size) const {
  const char* at = static_cast<const char*>(data);
  while (size > 0) {
    // Some systems reject writes of more than 2 GiB.
    constexpr size_t kLargestWrite = size_t{1} << 30;
    const ssize_t written =
        ::pwrite(fd_, at, std::min(size, kLargestWrite), static_cast<off_t>(position));
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) fail("cannot be written", position, errno);
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

// fsync() or close() may be the first to report a full disk.
void PendingFile::finish() {
  if (fd_ < 0) return;
  if (::fsync(fd_) != 0) fail("cannot be written", position_, errno);
  const int fd = fd_;
  fd_ = -1;
  if (::close(fd) != 0) fail("cannot be written", position_, errno);
}

void PendingFile::commit() {
  finish();
  if (const int code = output_.put_in_place(replace_))
    fail("cannot be put in place", position_, code);
  if (replaced_ != nullptr) replaced_->push_back(path_);
}

void PendingFile::fail(std::string_view what, uint64_t position, int code) const {
  throw Error(ErrorKind::kIo, "{}: {} after {} bytes: {}", shown_path(path_), what, position,
              std::strerror(code));
}

}  // namespace veery
