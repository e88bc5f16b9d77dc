// untrusted_file.h: access to untrusted files that never blocks and never reads beyond a limit.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace veery {

/// The purpose of a file and the limit of its size. Larger files are rejected before they are read;
/// published files are far smaller.
struct FileKind {
  std::string_view name;  ///< for messages
  uint64_t most_bytes;
  bool is_text = true;  ///< read_text() requires UTF-8 and drops a byte order mark
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

/// Throws kLimit, naming both numbers, if `bytes` exceeds the limit of `kind`.
void check_size(const std::string& path, uint64_t bytes, const FileKind& kind);

/// Names the file type for messages: "a folder", "a named pipe". `mode` is st_mode of stat().
std::string_view kind_of_file(uint32_t mode);
/// Escapes a path for messages as printable() does, cut at a length that real paths do not reach.
std::string shown_path(const std::string& path);

/// Owns a file descriptor and closes it.
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

/// Opens a regular file for reading. Throws kNotFound, or kIo naming the actual type: folders,
/// named pipes, devices and sockets are rejected at once, without waiting for another program.
Descriptor open_regular(const std::string& path);

/// Reads text from a path that the user passed: a regular file, or a stream such as /dev/stdin or
/// the pipe of a shell's <(command). Waits for data of a stream that has a writer, but does not
/// wait until a writer opens a named pipe. Drops a UTF-8 byte order mark. Throws kNotFound, kIo,
/// kLimit; kFormat for UTF-16.
std::string read_text(const std::string& path, const FileKind& kind);
/// As above for an open descriptor; `name` replaces the path in messages.
std::string read_text(int descriptor, const std::string& name, const FileKind& kind);

/// Returns whether `path` exists. Throws kIo if the system refuses to answer.
bool path_exists(const std::string& path);
/// Returns whether `path` is a folder. Throws kIo if the system refuses to answer.
bool is_folder(const std::string& path);

/// Returns the names in a folder, sorted. Throws kNotFound or kIo.
std::vector<std::string> list_folder(const std::string& folder);

}  // namespace veery
