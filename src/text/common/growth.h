// growth.h: how much longer than its source a tokenizer may make a text: its rules are foreign.
#pragma once
#include <cstddef>
#include <string_view>

#include "base/error.h"
#include "base/printable.h"

namespace veery {

/// Steps that a normalizer or a decoder may consist of. Real ones have less than ten.
inline constexpr size_t kMostSteps = 1000;

/// Counts what a part makes of one text. Unicode's decompositions make at most 11 bytes of one,
/// the byte alphabet 2, a mark in place of a space 3; all of them together stay below the limit.
class Growth {
 public:
  static constexpr size_t kEach = 64, kRoom = size_t{64} << 10;

  /// Of a text of `source` bytes, 64 for each and `room` more may be made.
  explicit Growth(size_t source = 0, size_t room = kRoom)
      : source_(source), room_(room), most_(source * kEach + room) {}

  /// Throws kLimit, naming the step, if it makes `bytes` more than what has been added before.
  void check(std::string_view step, size_t bytes) const {
    if (bytes > most_ - made_) fail(step);
  }
  void add(std::string_view step, size_t bytes) {
    check(step, bytes);
    made_ += bytes;
  }

 private:
  [[noreturn]] void fail(std::string_view step) const {
    throw Error(ErrorKind::kLimit,
                "{} makes more than {} bytes of a text of {}; at most {} for each and {} more are "
                "possible",
                printable(step), most_, source_, kEach, room_);
  }

  size_t source_, room_, most_, made_ = 0;
};

}  // namespace veery
