// pending_file.h: a file that exists under its own name only once it is whole.
#pragma once
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "file/output/output_path.h"
#include "file/output/pending_outputs.h"

namespace veery {

/// Smallest multiple of `alignment` that is not below `size`.
constexpr uint64_t round_up(uint64_t size, uint64_t alignment) {
  return (size + alignment - 1) / alignment * alignment;
}

/// Writes to a temporary name beside `path`; commit() renames. Without commit() nothing is left,
/// nor after discard_pending_outputs(). A file that is replaced hands on its permissions. Throws
/// what file_to_write() does, and kIo naming the file (a full disk included).
class PendingFile {
 public:
  explicit PendingFile(const std::string& path, const OutputRules& rules = {});
  PendingFile(const PendingFile&) = delete;
  PendingFile& operator=(const PendingFile&) = delete;
  ~PendingFile();

  void write(const void* data, size_t size);
  /// The same at a place of the file that need not be its end; safe to call from several threads.
  void write_at(uint64_t position, const void* data, size_t size) const;
  /// Zeros up to the next multiple of `alignment`.
  void pad(uint64_t alignment);
  /// All bytes are on the disk: what is left to commit() needs no more room.
  void finish();
  void commit();
  uint64_t position() const { return position_; }

 private:
  void create(const std::string& temporary);
  [[noreturn]] void fail(std::string_view what, uint64_t position, int code) const;

  std::string path_;
  bool replace_;
  std::vector<std::string>* replaced_;  // null: nobody asks, or there is no file to replace
  int fd_ = -1;
  uint64_t position_ = 0;
  PendingOutput output_;  // last: the descriptor is there when it is made
};

}  // namespace veery
