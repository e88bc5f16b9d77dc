// growth.h: limits how much a tokenizer file may lengthen a text, because the file is untrusted.
#pragma once
#include <cstddef>
#include <string_view>

#include "base/error.h"
#include "base/printable.h"

namespace veery {

/// Maximum number of steps of a normalizer or decoder. Real ones have fewer than ten.
inline constexpr size_t kMostSteps = 1000;

/// Counts the bytes that one part of a tokenizer produces from a text. Unicode decompositions
/// produce at most 11 bytes per byte, the byte alphabet 2, a mark in place of a space 3; all
/// together stay below the limit.
class Growth {
 public:
  static constexpr size_t kEach = 64, kRoom = size_t{64} << 10;

  /// Permits kEach bytes per byte of a text of `source` bytes, plus `room`.
  explicit Growth(size_t source = 0, size_t room = kRoom)
      : source_(source), room_(room), most_(source * kEach + room) {}

  /// Throws kLimit, naming the step, if `bytes` more would exceed the limit.
  void check(std::string_view step, size_t bytes) const {
    if (bytes > most_ - made_) fail(step);
  }
  void add(std::string_view step, size_t bytes) {
    check(step, bytes);
    made_ += bytes;
  }

 private:
  [[noreturn]] void fail(std::string_view step) const {
    throw Error(
        ErrorKind::kLimit,
        "{} makes more than {} bytes from a text of {} bytes; at most {} per byte plus {} are "
        "permitted",
        printable(step), most_, source_, kEach, room_);
  }

  size_t source_, room_, most_, made_ = 0;
};

}  // namespace veery
