// untrusted_file.h: the way to files that others made: none blocks, none is read beyond its limit.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace veery {

/// What a file is for, and so how many bytes of it are read at most. What is larger is refused
/// before it is read; no published file comes near.
struct FileKind {
  std::string_view name;  ///< for messages
  uint64_t most_bytes;
  bool is_text = true;  ///< read_text(): UTF-8, whose byte order mark is no part of it
};
inline constexpr uint64_t kMB = 1000 * 1000;
inline constexpr FileKind kConfigFile{"a configuration", 16 * kMB};
inline constexpr FileKind kIndexFile{"an index of tensors", 100 * kMB};
inline constexpr FileKind kSafetensorsHeader{"a header of safetensors", 100 * kMB};
inline constexpr FileKind kTokenizerFile{"a tokenizer", 200 * kMB};
inline constexpr FileKind kTemplateFile{"a chat template", 4 * kMB};
inline constexpr FileKind kMessagesFile{"messages, tools or variables", 16 * kMB};
inline constexpr FileKind kReferenceFile{"a reference in JSON", 64 * kMB};
inline constexpr FileKind kTextFile{"a text", 1000 * kMB};

/// Throws kLimit with both numbers if `bytes` are more than `kind` may have.
void check_size(const std::string& path, uint64_t bytes, const FileKind& kind);

/// What a path may lead to, for messages: "a folder", "a named pipe"; `mode` as stat() tells it.
std::string_view kind_of_file(uint32_t mode);
/// A path in messages: printable(), cut where no honest one is that long.
std::string shown_path(const std::string& path);

/// A descriptor that closes itself.
class Descriptor {
 public:
  explicit Descriptor(int fd) : fd_(fd) {}
  Descriptor(Descriptor&& other) noexcept : fd_(other.fd_) { other.fd_ = -1; }
  Descriptor& operator=(Descriptor&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  ~Descriptor();
  int get() const { return fd_; }

 private:
  int fd_;
};

/// Opens a regular file for reading. Throws kNotFound, or kIo naming what it is instead: a folder,
/// a named pipe, a device or a socket is refused at once, without waiting for another program.
Descriptor open_regular(const std::string& path);

/// Reads a text that the user hands over: a regular file, or a stream such as /dev/stdin or the
/// pipe of a shell's <(command). Waits for what a stream brings, but not for somebody to open its
/// other end. A byte order mark of UTF-8 is dropped. Throws kNotFound, kIo, kLimit; kFormat for
/// UTF-16.
std::string read_text(const std::string& path, const FileKind& kind);
/// The same of an open descriptor; `name` stands for the path in messages.
std::string read_text(int descriptor, const std::string& name, const FileKind& kind);

/// Whether there is something at `path`. Throws kIo if the system does not tell.
bool path_exists(const std::string& path);
/// Whether it is a folder. Throws kIo if the system does not tell.
bool is_folder(const std::string& path);

/// The names in a folder, sorted. Throws kNotFound or kIo.
std::vector<std::string> list_folder(const std::string& folder);

}  // namespace veery
