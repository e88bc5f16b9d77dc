#include "base/mapped_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstring>
#include <utility>

#include "base/error.h"

namespace veery {
namespace {

class Descriptor {
 public:
  explicit Descriptor(const std::string& path) : fd_(::open(path.c_str(), O_RDONLY | O_CLOEXEC)) {}
  Descriptor(const Descriptor&) = delete;
  ~Descriptor() {
    if (fd_ >= 0) ::close(fd_);
  }
  int get() const { return fd_; }

 private:
  int fd_;
};

}  // namespace

MappedFile::MappedFile(const std::string& path) : path_(path) {
  const Descriptor file(path);
  if (file.get() < 0) {
    const int code = errno;
    throw Error(code == ENOENT ? ErrorKind::kNotFound : ErrorKind::kIo, "{}: cannot be opened: {}",
                path, std::strerror(code));
  }
  struct stat info = {};
  if (::fstat(file.get(), &info) != 0)
    throw Error(ErrorKind::kIo, "{}: cannot be read: {}", path, std::strerror(errno));
  if (!S_ISREG(info.st_mode))
    throw Error(ErrorKind::kIo, "{}: is {}, expected a file", path,
                S_ISDIR(info.st_mode) ? "a directory" : "not a regular file");
  size_ = static_cast<size_t>(info.st_size);
  if (size_ == 0) return;  // an empty mapping is not allowed; the span is simply empty
  void* data = ::mmap(nullptr, size_, PROT_READ, MAP_PRIVATE, file.get(), 0);
  if (data == MAP_FAILED)
    throw Error(ErrorKind::kIo, "{}: cannot be mapped: {}", path, std::strerror(errno));
  data_ = static_cast<const std::byte*>(data);
}

MappedFile::MappedFile(MappedFile&& other) noexcept { *this = std::move(other); }

MappedFile& MappedFile::operator=(MappedFile&& other) noexcept {
  std::swap(path_, other.path_);
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  return *this;
}

MappedFile::~MappedFile() {
  if (data_ != nullptr) ::munmap(const_cast<std::byte*>(data_), size_);
}

void MappedFile::release(std::span<const std::byte> part) const noexcept {
  const auto page = static_cast<uintptr_t>(::sysconf(_SC_PAGESIZE));
  const uintptr_t begin = (reinterpret_cast<uintptr_t>(part.data()) + page - 1) / page * page;
  const uintptr_t end = (reinterpret_cast<uintptr_t>(part.data()) + part.size()) / page * page;
  if (begin < end) ::madvise(reinterpret_cast<void*>(begin), end - begin, MADV_DONTNEED);
}

}  // namespace veery
