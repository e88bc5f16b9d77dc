// clock.h: the monotonic clock in seconds.
#pragma once
#include <chrono>

namespace veery {

inline double seconds_now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

}  // namespace veery
