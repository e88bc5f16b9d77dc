// sound_input.h: the bytes of a sound file, in memory or on the disk, as decoders read them.
#pragma once
#include <cstdint>
#include <optional>
#include <string>

#include "base/untrusted_file.h"

namespace veery {

/// A position in bytes. Reads do not fail: what cannot be read is missing.
class SoundInput {
 public:
  /// A regular file. Throws as open_regular().
  explicit SoundInput(const std::string& path);
  /// The bytes of one, and its name.
  SoundInput(std::string bytes, std::string name);

  /// For messages.
  const std::string& name() const { return name_; }
  int64_t size() const { return size_; }
  int64_t at() const { return at_; }
  /// Reads up to `count` bytes and advances the position. Returns how many.
  int64_t read(void* to, int64_t count);
  /// The same at another position, which does not move that of read().
  int64_t read_at(int64_t position, void* to, int64_t count) const;
  /// As lseek(); returns the new position, -1 if it would be outside of the input.
  int64_t seek(int64_t offset, int whence);

 private:
  std::string name_;
  std::optional<Descriptor> descriptor_;
  std::string bytes_;
  int64_t size_ = 0, at_ = 0;
};

}  // namespace veery
