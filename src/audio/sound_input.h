// sound_input.h: input of sound decoders: a file or a buffer in memory.
#pragma once
#include <cstdint>
#include <optional>
#include <string>

#include "base/untrusted_file.h"

namespace veery {

/// A byte source with a position. Reads never fail; bytes that cannot be read are treated as
/// missing.
class SoundInput {
 public:
  /// Opens a regular file. Throws as open_regular().
  explicit SoundInput(const std::string& path);
  /// Reads a file in memory with the given name.
  SoundInput(std::string bytes, std::string name);

  /// Returns the name for messages.
  const std::string& name() const { return name_; }
  int64_t size() const { return size_; }
  int64_t at() const { return at_; }
  /// Reads up to `count` bytes and advances the position. Returns the number of bytes read.
  int64_t read(void* to, int64_t count);
  /// Reads at another position without moving that of read().
  int64_t read_at(int64_t position, void* to, int64_t count) const;
  /// Like lseek(). Returns the new position, or -1 if it would be outside the input.
  int64_t seek(int64_t offset, int whence);

 private:
  std::string name_;
  std::optional<Descriptor> descriptor_;
  std::string bytes_;
  int64_t size_ = 0, at_ = 0;
};

}  // namespace veery
