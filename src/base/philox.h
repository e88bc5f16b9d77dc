// philox.h: a counter-based random number generator for host and GPU: the n-th number of a stream
// is a function of (seed, n).
#pragma once
#include <cstdint>

#include "base/everywhere.h"

namespace veery {

struct PhiloxBlock {
  uint32_t numbers[4];
  friend bool operator==(const PhiloxBlock&, const PhiloxBlock&) = default;
};

/// Philox4x32-10 (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC 2011).
VEERY_EVERYWHERE PhiloxBlock philox(PhiloxBlock counter, uint32_t key, uint32_t other_key) {
  uint32_t(&c)[4] = counter.numbers;
  for (int round = 0; round < 10; ++round) {
    const uint64_t a = uint64_t{0xD2511F53U} * c[0];
    const uint64_t b = uint64_t{0xCD9E8D57U} * c[2];
    const uint32_t first = static_cast<uint32_t>(b >> 32) ^ c[1] ^ key;
    const uint32_t third = static_cast<uint32_t>(a >> 32) ^ c[3] ^ other_key;
    c[0] = first, c[1] = static_cast<uint32_t>(b);
    c[2] = third, c[3] = static_cast<uint32_t>(a);
    key += 0x9E3779B9U, other_key += 0xBB67AE85U;
  }
  return counter;
}

/// Returns number `position` of the stream of `seed`.
VEERY_EVERYWHERE uint32_t random_number(uint64_t seed, uint64_t position) {
  const uint64_t block = position / 4;
  const PhiloxBlock made =
      philox({{static_cast<uint32_t>(block), static_cast<uint32_t>(block >> 32), 0, 0}},
             static_cast<uint32_t>(seed), static_cast<uint32_t>(seed >> 32));
  return made.numbers[position % 4];
}

}  // namespace veery
