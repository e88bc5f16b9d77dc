// hash.h: a non-cryptographic hash for change and corruption detection; not safe against forgery.
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string_view>

namespace veery {

/// Hashes a sequence of pieces, including their boundaries. The value is the same on every
/// little-endian machine.
class Hash {
 public:
  void add(std::span<const std::byte> bytes) {
    mix(bytes.size());
    for (size_t at = 0; at < bytes.size(); at += sizeof(uint64_t)) {
      uint64_t word = 0;
      std::memcpy(&word, bytes.data() + at, std::min(sizeof(word), bytes.size() - at));
      mix(word);
    }
  }
  void add(std::string_view text) { add(std::as_bytes(std::span(text))); }
  void add(int64_t number) { mix(static_cast<uint64_t>(number)); }
  uint64_t value() const { return value_ ^ value_ >> 32; }

 private:
  // The factor is odd, so every step is a bijection: sequences that differ in one word keep
  // different states.
  void mix(uint64_t word) {
    value_ = (value_ ^ word) * 0x9E3779B97F4A7C15U;
    value_ ^= value_ >> 29;
  }

  uint64_t value_ = 0x2545F4914F6CDD1DU;
};

}  // namespace veery
