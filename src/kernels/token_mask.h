// token_mask.h: which tokens may come next, as the host finds it while a device computes a run.
#pragma once
#include <cstddef>
#include <cstdint>
#include <span>

namespace veery {

/// A row for each output of a run: a word that says whether not all tokens may come, then a bit for
/// each that may, token 32 w + b in bit b of word w. Refers to the words.
class TokenMaskRows {
 public:
  static constexpr size_t words(int64_t tokens) {
    return 1 + (static_cast<size_t>(tokens) + 31) / 32;
  }
  TokenMaskRows(uint32_t* first, int64_t tokens, int32_t count)
      : first_(first), words_(words(tokens)), count_(count) {}

  int32_t count() const { return count_; }
  void allow_all(int32_t i) const { *row(i) = 0; }
  /// To be written as a whole: the row counts from now on.
  std::span<uint32_t> bits(int32_t i) const {
    *row(i) = 1;
    return {row(i) + 1, words_ - 1};
  }
  TokenMaskRows part(int32_t first, int32_t count) const {
    TokenMaskRows rows = *this;
    rows.first_ = row(first);
    rows.count_ = count;
    return rows;
  }

 private:
  uint32_t* row(int32_t i) const { return first_ + static_cast<size_t>(i) * words_; }

  uint32_t* first_;
  size_t words_;
  int32_t count_;
};

class TokenMask {
 public:
  TokenMask() = default;
  TokenMask(const TokenMask&) = delete;
  TokenMask& operator=(const TokenMask&) = delete;
  virtual ~TokenMask() = default;
  /// Writes all rows.
  virtual void fill(const TokenMaskRows& rows) = 0;
};

}  // namespace veery
