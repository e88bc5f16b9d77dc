// mapped_file.h: a whole file mapped read-only.
#pragma once
#include <cstddef>
#include <span>
#include <string>

namespace veery {

/// Owns the mapping; views into bytes() must not outlive it. Move-only.
class MappedFile {
 public:
  /// Throws kNotFound, or kIo for a directory or a file that may not be read.
  explicit MappedFile(const std::string& path);
  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&& other) noexcept;
  ~MappedFile();

  std::span<const std::byte> bytes() const { return {data_, size_}; }
  const std::string& path() const { return path_; }

  /// Tells the system that `part` is not needed any more: its pages stop counting as resident
  /// memory. Reading it again is allowed and reads the file anew.
  void release(std::span<const std::byte> part) const noexcept;

 private:
  std::string path_;
  const std::byte* data_ = nullptr;
  size_t size_ = 0;
};

}  // namespace veery
