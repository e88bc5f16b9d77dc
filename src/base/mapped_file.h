// mapped_file.h: the bytes of a whole file, mapped read-only or read into memory.
#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>

#include "base/error.h"
#include "base/untrusted_file.h"

namespace veery {

/// Registers a range of mapped pages with the process's SIGBUS handler, which is installed while
/// ranges are registered. If a page is read that its file no longer has, or that the disk cannot
/// deliver, the read yields zeros and marks the range as damaged instead of killing the process.
/// Faults elsewhere go to the handler that was installed before. Results computed from a damaged
/// range are wrong, so readers check is_damaged() before they use a result.
class MappedRange {
 public:
  /// `data` must be page-aligned and stay mapped for the lifetime of this object.
  MappedRange(const std::byte* data, size_t size);
  MappedRange(const MappedRange&) = delete;
  MappedRange& operator=(const MappedRange&) = delete;
  ~MappedRange();

  bool is_damaged() const noexcept;

  struct Slot;

 private:
  Slot* slot_;
};

/// Unblocks SIGBUS for this thread and the threads that it starts. Linux kills a process whose
/// thread faults while the signal is blocked, and threads inherit the signal mask of the host
/// program.
void unblock_bus_errors() noexcept;

/// Thrown if a mapped file shrank, was overwritten or could not be read while in use. Everything
/// that was computed from it is invalid. Reopening it works once the file is whole again.
class FileChanged : public Error {
 public:
  using Error::Error;
};

/// Returns the result of `use`. If files.check_unchanged() throws, that exception replaces the
/// result, or the exception that `use` threw.
template <typename Files, typename F>
auto checked_use(const Files& files, F&& use) {
  try {
    if constexpr (std::is_void_v<decltype(use())>) {
      use();
      files.check_unchanged();
    } else {
      auto result = use();
      files.check_unchanged();
      return result;
    }
  } catch (const FileChanged&) {
    throw;
  } catch (...) {
    files.check_unchanged();
    throw;
  }
}

/// Owns the bytes of a file; views into bytes() must not outlive it. Move-only.
class MappedFile {
 public:
  /// Number of readable zero bytes after the contents of a file that is not empty.
  static constexpr size_t kPadding = 64;

  /// Maps the file; meant for weights. The file may change while it is mapped, so users call
  /// check_unchanged() before they use a result. Throws kNotFound, or kIo if the path is not a
  /// regular file or cannot be read.
  explicit MappedFile(const std::string& path);
  /// Reads the file into memory; meant for files that are parsed at once. Throws as above, kLimit
  /// if the file exceeds the limit of its kind, FileChanged if it shrinks while it is read.
  MappedFile(const std::string& path, const FileKind& kind);
  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&& other) noexcept;
  ~MappedFile();

  std::span<const std::byte> bytes() const { return {data_, size_}; }
  std::string_view text() const { return {reinterpret_cast<const char*>(data_), size_}; }
  const std::string& path() const { return path_; }

  /// Returns whether all bytes read so far are those of the file as it was opened: its pages were
  /// readable, and its size and modification time are the same. A file that was replaced by a
  /// rename counts as unchanged, because the mapping keeps the old one.
  bool is_unchanged() const noexcept;
  /// Throws FileChanged, naming the file, the size found and the size expected, unless
  /// is_unchanged().
  void check_unchanged() const;
  /// Returns the result of `use`, which reads the mapping. Throws FileChanged in place of it, or of
  /// the error that `use` throws, if the file changed before `use` returned.
  template <typename F>
  auto checked(F&& use) const {
    return checked_use(*this, use);
  }

  /// Tells the system that `part` is not needed any more, so that its pages stop counting as
  /// resident memory. Reading it again is allowed and reads from the file.
  void release(std::span<const std::byte> part) const noexcept;

 private:
  struct Version {
    size_t size = 0;
    int64_t seconds = 0, nanoseconds = 0;  // of the last modification
    bool operator==(const Version&) const = default;
  };
  Version version() const;
  void allocate();

  std::string path_;
  Descriptor file_;
  Version opened_;
  const std::byte* data_ = nullptr;
  size_t size_ = 0;
  std::unique_ptr<MappedRange> range_;  ///< nullptr if the contents are in memory
};

}  // namespace veery
