// random.h: counter-based random numbers: the n-th number of a stream is a function of (seed, n).
#pragma once
#include <array>
#include <cmath>
#include <cstdint>

namespace veery {

/// Philox4x32-10 (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC 2011).
inline std::array<uint32_t, 4> philox(std::array<uint32_t, 4> counter,
                                      std::array<uint32_t, 2> key) {
  for (int round = 0; round < 10; ++round) {
    const uint64_t a = uint64_t{0xD2511F53U} * counter[0];
    const uint64_t b = uint64_t{0xCD9E8D57U} * counter[2];
    counter = {static_cast<uint32_t>(b >> 32) ^ counter[1] ^ key[0], static_cast<uint32_t>(b),
               static_cast<uint32_t>(a >> 32) ^ counter[3] ^ key[1], static_cast<uint32_t>(a)};
    key = {key[0] + 0x9E3779B9U, key[1] + 0xBB67AE85U};
  }
  return counter;
}

/// A stream of numbers; its whole state is (seed, position), so it can be saved and forked.
class Random {
 public:
  explicit Random(uint64_t seed, uint64_t position = 0) : seed_(seed), position_(position) {}
  uint64_t position() const { return position_; }

  uint32_t next() {
    const uint64_t block = position_ / 4;
    const auto numbers =
        philox({static_cast<uint32_t>(block), static_cast<uint32_t>(block >> 32), 0, 0},
               {static_cast<uint32_t>(seed_), static_cast<uint32_t>(seed_ >> 32)});
    return numbers[position_++ % 4];
  }
  /// In [0, 1), 24 bits.
  float uniform() { return static_cast<float>(next() >> 8) * 0x1p-24F; }
  /// Standard normal (Box and Muller).
  float normal() {
    const double u = (next() + 0.5) * 0x1p-32;
    const double v = (next() + 0.5) * 0x1p-32;
    return static_cast<float>(std::sqrt(-2 * std::log(u)) * std::cos(6.283185307179586 * v));
  }

 private:
  uint64_t seed_;
  uint64_t position_;
};

}  // namespace veery
