// token_mask.h: token masks of constrained decoding, filled by the host while a device runs.
#pragma once
#include <cstddef>
#include <cstdint>
#include <span>

namespace veery {

/// A view of one mask row per output of a run. A row begins with a word that is 1 if the mask
/// applies and 0 if all tokens are allowed. Then follows one bit per token, 1 if it is allowed: bit
/// b of word w is token 32 w + b.
class TokenMaskRows {
 public:
  static constexpr size_t words(int64_t tokens) {
    return 1 + (static_cast<size_t>(tokens) + 31) / 32;
  }
  TokenMaskRows(uint32_t* first, int64_t tokens, int32_t count)
      : first_(first), words_(words(tokens)), count_(count) {}

  int32_t count() const { return count_; }
  void allow_all(int32_t i) const { *row(i) = 0; }
  /// Makes mask `i` apply and returns its words, all of which the caller must write.
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

/// A source of token masks.
class TokenMask {
 public:
  TokenMask() = default;
  TokenMask(const TokenMask&) = delete;
  TokenMask& operator=(const TokenMask&) = delete;
  virtual ~TokenMask() = default;
  /// Writes all rows: allow_all() or bits() for each.
  virtual void fill(const TokenMaskRows& rows) = 0;
};

}  // namespace veery
