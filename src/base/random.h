// random.h: a stream of counter-based random numbers (philox.h).
#pragma once
#include <cmath>
#include <cstdint>

#include "base/philox.h"

namespace veery {

/// A random stream. Its whole state is (seed, position), so it can be saved and forked.
class Random {
 public:
  explicit Random(uint64_t seed, uint64_t position = 0) : seed_(seed), position_(position) {}
  uint64_t position() const { return position_; }

  uint32_t next() { return random_number(seed_, position_++); }
  /// Returns a number in [0, 1) with 24 random bits.
  float uniform() { return static_cast<float>(next() >> 8) * 0x1p-24F; }
  /// Returns a standard normal number (Box-Muller).
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
