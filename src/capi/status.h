// status.h: statuses and messages: every call of the C API ends in guarded().
#pragma once
#include <veery/veery.h>

#include <stdexcept>

namespace veery::capi {

/// Thrown while an answer of the same handle is unfinished; becomes VEERY_ERROR_BUSY.
class Busy : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// Stores the message of the exception in flight for veery_last_message() of this thread, and
/// returns the status of that exception.
veery_status status_of_exception() noexcept;

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
