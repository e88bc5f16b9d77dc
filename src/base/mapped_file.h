// mapped_file.h: a whole file mapped read-only.
#pragma once
#include <cstddef>
#include <span>
#include <string>
#include <string_view>

namespace veery {

struct FileKind;

/// Owns the mapping; views into bytes() must not outlive it. Move-only.
class MappedFile {
 public:
  /// So many bytes behind those of a file that is not empty may be read; they are zeros.
  static constexpr size_t kPadding = 64;

  /// Throws kNotFound, or kIo for what is no regular file or may not be read.
  explicit MappedFile(const std::string& path);
  /// The same, and kLimit for a file that is larger than its kind may be.
  MappedFile(const std::string& path, const FileKind& kind);
  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&& other) noexcept;
  ~MappedFile();

  std::span<const std::byte> bytes() const { return {data_, size_}; }
  std::string_view text() const { return {reinterpret_cast<const char*>(data_), size_}; }
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
