// status.h: statuses and messages: every call of the C API ends in guarded().
#pragma once
#include <veery/veery.h>

#include <cstdint>
#include <stdexcept>
#include <string>

namespace veery::capi {

/// Thrown while an answer of the same handle is unfinished; becomes VEERY_ERROR_BUSY.
class Busy : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// Thrown if a function of the caller returned `status`; becomes this status.
class CallbackFailure : public std::runtime_error {
 public:
  CallbackFailure(veery_status status, const std::string& message)
      : std::runtime_error(message), status_(status) {}
  veery_status status() const { return status_; }

 private:
  veery_status status_;
};

/// Stores the message of the exception in flight for veery_last_message() of this thread, and
/// returns the status of that exception.
veery_status status_of_exception() noexcept;

/// Stores a message in the same way. Returns `status`; VEERY_ERROR_INPUT if that is no error.
veery_status fail_with(veery_status status, const char* message) noexcept;
/// Returns the number of messages that this thread has stored.
uint64_t failure_count() noexcept;

/// Returns the status that `call` returns, or the status of the exception that it throws.
template <typename F>
veery_status guarded(F&& call) noexcept {
  try {
    return call();
  } catch (...) {
    return status_of_exception();
  }
}

}  // namespace veery::capi
