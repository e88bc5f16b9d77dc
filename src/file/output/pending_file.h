// pending_file.h: a file that gets its final name only after it is complete.
#pragma once
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "file/output/output_path.h"
#include "file/output/pending_outputs.h"

namespace veery {

/// Returns the smallest multiple of `alignment` that is at least `size`.
constexpr uint64_t round_up(uint64_t size, uint64_t alignment) {
  return (size + alignment - 1) / alignment * alignment;
}

/// Writes under a temporary name next to `path`; commit() renames the file. Without commit(), or
/// after discard_pending_outputs(), the file is removed. A replaced file passes on its permissions.
/// Throws as file_to_write() does, and kIo naming the file (including a full disk).
class PendingFile {
 public:
  explicit PendingFile(const std::string& path, const OutputRules& rules = {});
  PendingFile(const PendingFile&) = delete;
  PendingFile& operator=(const PendingFile&) = delete;
  ~PendingFile();

  void write(const void* data, size_t size);
  /// Writes at any position; safe to call from several threads.
  void write_at(uint64_t position, const void* data, size_t size) const;
  /// Writes zeros up to the next multiple of `alignment`.
  void pad(uint64_t alignment);
  /// Flushes everything to disk, so that commit() needs no more space.
  void finish();
  void commit();
  uint64_t position() const { return position_; }

 private:
  void create(const std::string& temporary);
  [[noreturn]] void fail(std::string_view what, uint64_t position, int code) const;

  std::string path_;
  bool replace_;
  std::vector<std::string>* replaced_;  // nullptr: no receiver, or no file to replace
  int fd_ = -1;
  uint64_t position_ = 0;
  PendingOutput output_;  // last member: the descriptor must be open when it is constructed
};

}  // namespace veery
