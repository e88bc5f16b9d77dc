// error.h: the one exception type, and the check for our own bugs.
#pragma once
#include <fmt/core.h>

#include <stdexcept>
#include <string>
#include <utility>

namespace veery {

/// What kind of promise was broken; the C API and the server map it to a status.
enum class ErrorKind {
  kInput,        ///< an argument or a request is wrong
  kFormat,       ///< a file does not hold what its format promises
  kUnsupported,  ///< understood, but not implemented for this case
  kLimit,        ///< more than the limits that the user set (memory, context length)
  kNotFound,     ///< a file or a name does not exist
  kIo,           ///< the system refused to read or write
  kBug,          ///< veery itself is wrong
};

/// The text for people: names the thing, what was found and what was expected.
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

/// States what must hold unless veery has a bug. Throws Error(kBug); never for bad input.
#define VEERY_CHECK(condition) \
  ((condition) ? void() : ::veery::check_failed(__FILE__, __LINE__, #condition))
