#include "base/mapped_file.h"

#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstring>
#include <utility>

#include "base/error.h"
#include "base/foreign_file.h"

namespace veery {

MappedFile::MappedFile(const std::string& path) : path_(path) {
  const Descriptor file = open_regular(path);
  struct stat info = {};
  if (::fstat(file.get(), &info) != 0)
    throw Error(ErrorKind::kIo, "{}: cannot be read: {}", path, std::strerror(errno));
  size_ = static_cast<size_t>(info.st_size);
  if (size_ == 0) return;  // an empty mapping is not allowed; the span is simply empty
  // Pages for all of it first, then the file over them: what is left at the end reads as zeros.
  void* data = ::mmap(nullptr, size_ + kPadding, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (data == MAP_FAILED ||
      ::mmap(data, size_, PROT_READ, MAP_PRIVATE | MAP_FIXED, file.get(), 0) == MAP_FAILED) {
    const int code = errno;
    if (data != MAP_FAILED) ::munmap(data, size_ + kPadding);
    throw Error(ErrorKind::kIo, "{}: cannot be mapped: {}", path, std::strerror(code));
  }
  data_ = static_cast<const std::byte*>(data);
}

MappedFile::MappedFile(const std::string& path, const FileKind& kind) : MappedFile(path) {
  check_size(path, size_, kind);
}

MappedFile::MappedFile(MappedFile&& other) noexcept { *this = std::move(other); }

MappedFile& MappedFile::operator=(MappedFile&& other) noexcept {
  std::swap(path_, other.path_);
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  return *this;
}

MappedFile::~MappedFile() {
  if (data_ != nullptr) ::munmap(const_cast<std::byte*>(data_), size_ + kPadding);
}

void MappedFile::release(std::span<const std::byte> part) const noexcept {
  const auto page = static_cast<uintptr_t>(::sysconf(_SC_PAGESIZE));
  const uintptr_t begin = (reinterpret_cast<uintptr_t>(part.data()) + page - 1) / page * page;
  const uintptr_t end = (reinterpret_cast<uintptr_t>(part.data()) + part.size()) / page * page;
  if (begin < end) ::madvise(reinterpret_cast<void*>(begin), end - begin, MADV_DONTNEED);
}

}  // namespace veery
