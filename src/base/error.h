// error.h: the exception type of the project, and the check for internal errors.
#pragma once
#include <fmt/core.h>

#include <stdexcept>
#include <string>
#include <utility>

namespace veery {

/// Category of an error; the C API and the server map it to a status.
enum class ErrorKind {
  kInput,        ///< invalid argument or request
  kFormat,       ///< a file violates its format
  kUnsupported,  ///< valid, but not implemented for this case
  kLimit,        ///< a limit set by the user is exceeded (memory, context length)
  kNotFound,     ///< a file or a name does not exist
  kIo,           ///< the operating system refused to read or write
  kBug,          ///< internal error in veery
};

/// Exception with a message for the user, which names the object, what was found and what was
/// expected.
class Error : public std::runtime_error {
 public:
  template <typename... Args>
  Error(ErrorKind kind, fmt::format_string<Args...> format, Args&&... args)
      : std::runtime_error(fmt::format(format, std::forward<Args>(args)...)), kind_(kind) {}
  ErrorKind kind() const { return kind_; }

 private:
  ErrorKind kind_;
};

[[noreturn]] void check_failed(const char* file, int line, const char* condition);

}  // namespace veery

/// Checks an invariant of veery's own code; never used for bad input. Throws Error(kBug).
#define VEERY_CHECK(condition) \
  ((condition) ? void() : ::veery::check_failed(__FILE__, __LINE__, #condition))
