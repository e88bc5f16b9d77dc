// sanitized.h: whether sanitizers are enabled, under which some tests would take minutes.
#pragma once

namespace veery::test {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
inline constexpr bool kSanitized = true;
#else
inline constexpr bool kSanitized = false;
#endif

}  // namespace veery::test
