#include "base/mapped_file.h"

#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

namespace veery {
namespace {

[[noreturn]] void fail(const std::string& path, const char* doing, int code) {
  throw Error(ErrorKind::kIo, "{}: cannot be {}: {}", shown_path(path), doing, std::strerror(code));
}

[[noreturn]] void fail_short(const std::string& path, size_t found, size_t expected) {
  throw FileChanged(ErrorKind::kIo, "{}: shrank while it was in use: found {} bytes, expected {}",
                    shown_path(path), found, expected);
}

}  // namespace

MappedFile::Version MappedFile::version() const {
  struct stat info = {};
  if (::fstat(file_.get(), &info) != 0)
    throw FileChanged(ErrorKind::kIo, "{}: cannot be read any more: {}", shown_path(path_),
                      std::strerror(errno));
#if defined(__APPLE__)
  const timespec& modified = info.st_mtimespec;
#else
  const timespec& modified = info.st_mtim;
#endif
  return {static_cast<size_t>(info.st_size), modified.tv_sec, modified.tv_nsec};
}

// Maps zero pages over the whole range; those after the end of the file stay zero and serve as
// padding.
void MappedFile::allocate() {
  void* data =
      ::mmap(nullptr, size_ + kPadding, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (data == MAP_FAILED) fail(path_, "mapped", errno);
  data_ = static_cast<const std::byte*>(data);
}

MappedFile::MappedFile(const std::string& path) : path_(path), file_(open_regular(path)) {
  opened_ = version();
  size_ = opened_.size;
  if (size_ == 0) return;  // mmap() rejects empty mappings; the span is empty
  allocate();
  auto* const data = const_cast<std::byte*>(data_);  // NOLINT
  if (::mmap(data, size_, PROT_READ, MAP_PRIVATE | MAP_FIXED, file_.get(), 0) == MAP_FAILED) {
    const int code = errno;
    ::munmap(data, size_ + kPadding);
    fail(path, "mapped", code);
  }
  range_ = std::make_unique<MappedRange>(data_, size_);
}

MappedFile::MappedFile(const std::string& path, const FileKind& kind)
    : path_(path), file_(open_regular(path)) {
  opened_ = version();
  check_size(path, opened_.size, kind);
  size_ = opened_.size;
  if (size_ == 0) return;
  allocate();
  MappedFile owner(std::move(*this));                      // frees the pages if reading fails
  auto* const data = const_cast<std::byte*>(owner.data_);  // NOLINT
  for (size_t done = 0; done < owner.size_;) {
    const ssize_t count = ::read(owner.file_.get(), data + done, owner.size_ - done);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) fail(path, "read", errno);
    if (count == 0) fail_short(path, done, owner.size_);
    done += static_cast<size_t>(count);
  }
  owner.file_ = Descriptor(-1);  // close the file
  *this = std::move(owner);
}

MappedFile::MappedFile(MappedFile&& other) noexcept : file_(-1) { *this = std::move(other); }

MappedFile& MappedFile::operator=(MappedFile&& other) noexcept {
  std::swap(path_, other.path_);
  std::swap(file_, other.file_);
  std::swap(opened_, other.opened_);
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  std::swap(range_, other.range_);
  return *this;
}

MappedFile::~MappedFile() {
  range_.reset();
  if (data_ != nullptr) ::munmap(const_cast<std::byte*>(data_), size_ + kPadding);  // NOLINT
}

bool MappedFile::is_unchanged() const noexcept {
  if (!range_) return true;
  try {
    return !range_->is_damaged() && version() == opened_;
  } catch (...) {
    return false;  // the system does not know the file any more: ESTALE
  }
}

void MappedFile::check_unchanged() const {
  if (is_unchanged()) return;
  const Version now = version();
  if (now.size < size_) fail_short(path_, now.size, size_);
  if (now != opened_)
    throw FileChanged(ErrorKind::kIo,
                      "{}: was overwritten while it was in use: found {} bytes, expected {} and no "
                      "modification",
                      shown_path(path_), now.size, size_);
  throw FileChanged(ErrorKind::kIo,
                    "{}: cannot be read any more: found an I/O error or a file that shrank, "
                    "expected {} bytes",
                    shown_path(path_), size_);
}

void MappedFile::release(std::span<const std::byte> part) const noexcept {
  if (!range_) return;  // pages in memory are the only copy
  const auto page = static_cast<uintptr_t>(::sysconf(_SC_PAGESIZE));
  const uintptr_t begin = (reinterpret_cast<uintptr_t>(part.data()) + page - 1) / page * page;
  const uintptr_t end = (reinterpret_cast<uintptr_t>(part.data()) + part.size()) / page * page;
  if (begin < end) ::madvise(reinterpret_cast<void*>(begin), end - begin, MADV_DONTNEED);
}

}  // namespace veery
